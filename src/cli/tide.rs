//! `tidewright tide`: what the fleet should be, now and over the coming days.

use super::{Common, Directory};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    directory: Directory,
}

pub fn run(arguments: &Arguments, common: &Common) -> u8 {
    let _ = (arguments, common);
    super::DONE
}
