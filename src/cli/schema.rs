//! `tidewright schema`: the language for editors and API servers.

use std::path::PathBuf;

use super::{Common, DONE, Output, fail, json, print, talk};
use crate::fleet::Kind;
use crate::manifest::schema;
use crate::render::{diagnostics, fabric, hardware, plan, status, tide};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright schema                            write all of them below ./schemas
  tidewright schema vendor/tidewright          somewhere else
  tidewright schema --check                    fail if the files there are not what would be written")]
pub struct Arguments {
    /// Where to write them
    #[arg(value_name = "DIR", default_value = "schemas")]
    directory: PathBuf,
    /// Write nothing; fail if a file differs
    #[arg(long)]
    check: bool,
}

/// Every published file, by its path below the directory.
pub fn files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for kind in Kind::ALL {
        let name = kind.name().to_lowercase();
        files.push((format!("json/{name}.schema.json"), json(&schema::editor(kind)) + "\n"));
        let crd = serde_saphyr::to_string(&schema::crd(kind)).expect("a CRD is plain data");
        files.push((format!("crds/{}.yaml", kind.plural()), crd));
    }
    files.push(("json/any.schema.json".into(), json(&schema::editor_any()) + "\n"));
    files.push(("output/diagnostics.schema.json".into(), json(&diagnostics::json_schema()) + "\n"));
    files.push(("output/hardware.schema.json".into(), json(&hardware::json_schema()) + "\n"));
    files.push(("output/pack.schema.json".into(), json(&super::pack::json_schema()) + "\n"));
    files.push(("output/place.schema.json".into(), json(&fabric::json_schema()) + "\n"));
    files.push(("output/plan.schema.json".into(), json(&plan::json_schema()) + "\n"));
    files.push(("output/status.schema.json".into(), json(&status::json_schema()) + "\n"));
    files.push(("output/tide.schema.json".into(), json(&tide::json_schema()) + "\n"));
    files
}

pub fn run(arguments: &Arguments, common: &Common) -> u8 {
    if let Err(code) = common.one_of("schema", &[Output::Human]) {
        return code;
    }
    let mut stale = Vec::new();
    for (name, text) in files() {
        let path = arguments.directory.join(&name);
        if std::fs::read_to_string(&path).is_ok_and(|there| there == text) {
            continue;
        }
        stale.push(path.display().to_string());
        if arguments.check {
            continue;
        }
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, text));
        if let Err(error) = written {
            return fail(&format!("cannot write `{}`: {error}", path.display()));
        }
    }
    match (stale.is_empty(), arguments.check) {
        (true, _) => talk("The schemas are up to date."),
        (false, false) => print(&stale.join("\n")),
        (false, true) => {
            return fail(&format!(
                "not what would be written: {}\nwrite them anew with `tidewright schema`",
                stale.join(", ")
            ));
        }
    }
    DONE
}
