//! What a placement must be, judged by somebody who looks at all of them.

mod answers;
mod draw;
mod middle;
mod oracle;
mod properties;
mod reasons;
mod trees;
