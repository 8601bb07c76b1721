//! `tidewright init`: a small, commented fleet to start from.

use std::path::PathBuf;

use super::{Common, DONE, Output, fail, json, print, talk};
use crate::manifest::schema;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright init my-fleet                     write my-fleet/*.yaml
  tidewright validate my-fleet                 and see that it is valid")]
pub struct Arguments {
    /// Where to write it: a directory that is empty or not there yet
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

/// The files of the starting fleet.
pub const FILES: &[(&str, &str)] = &[
    ("fleet.yaml", include_str!("init/fleet.yaml")),
    ("pools.yaml", include_str!("init/pools.yaml")),
    ("teams.yaml", include_str!("init/teams.yaml")),
    ("tide.yaml", include_str!("init/tide.yaml")),
];

/// Where the first line of each file says that its schema is. The loader passes over hidden directories.
const SCHEMA: &str = ".tidewright/any.schema.json";

pub fn run(arguments: &Arguments, common: &Common) -> u8 {
    if let Err(code) = common.one_of("init", &[Output::Human]) {
        return code;
    }
    let directory = &arguments.directory;
    // Nothing of anybody's is ever overwritten, also not half of it, and no fleet is written into another.
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    if let Some(first) = names.filter(|name| !name.starts_with('.')).min() {
        return fail(&format!("`{}` is not empty, it has `{first}`: name an empty directory", directory.display()));
    }
    if let Err(error) = std::fs::create_dir_all(directory) {
        return fail(&format!("cannot make `{}`: {error}", directory.display()));
    }
    // Beside the fleet, so that editors complete and explain fields with no network.
    let schema = json(&schema::editor_any());
    let files = FILES.iter().map(|(name, text)| (*name, text.to_string())).chain([(SCHEMA, schema)]);
    for (name, text) in files {
        let path = directory.join(name);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, text));
        if let Err(error) = written {
            return fail(&format!("cannot write `{}`: {error}", path.display()));
        }
        print(&path.display().to_string());
    }
    let shown = directory.display();
    talk(&format!("A fleet to start from. Next:\n  tidewright validate {shown}\n  tidewright tide {shown}"));
    DONE
}
