//! The program: arguments to the command line, its exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidewright::cli::run()
}
