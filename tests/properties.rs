//! Properties of the language: order of files, printing, MIG against exhaustive search.
