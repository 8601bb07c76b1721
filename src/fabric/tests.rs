//! What a placement must be, judged by somebody who looks at all of them.

mod answers;
mod draw;
mod limits;
mod middle;
mod oracle;
mod properties;
mod reasons;
mod trees;
