//! Walks a plan: reads again, calls providers, tells what happened. One task; time only through `Clock`.
