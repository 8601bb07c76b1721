//! `tidewright replay`: the plan of a saved input, byte for byte.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Common, Output, fail};
use crate::plan::{PlanInput, plan};
use crate::render::plan::Shown;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright replay input.json                 make the same plan again, anywhere
  tidewright replay input.json --output json   the same for programs

Exit codes: 0 no changes, 1 error, 2 changes, 3 something is wanted and all of it is held.")]
pub struct Arguments {
    /// A file that `tidewright plan --save-input` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Every step and every name
    #[arg(long)]
    verbose: bool,
}

/// What the file is, so that no other JSON is taken for it.
const KIND: &str = "tidewright-input";
const FORMAT_VERSION: &str = "2.0";

#[derive(Serialize, Deserialize)]
struct Saved {
    kind: String,
    format_version: String,
    /// How the fleet's directory was written, and whether the plan was one of its moment: both are in its words.
    directory: String,
    is_now: bool,
    input: PlanInput,
}

/// Ends with a line break.
pub fn save(input: &PlanInput, directory: &str, is_now: bool) -> String {
    let (kind, format_version) = (KIND.into(), FORMAT_VERSION.into());
    let saved = Saved { kind, format_version, directory: directory.into(), is_now, input: input.clone() };
    serde_json::to_string(&saved).expect("our own types always serialise") + "\n"
}

fn load(text: &str) -> Result<Saved, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Eof => "it is cut short: save it again".to_string(),
        _ => "it is no saved input: write one with `tidewright plan --save-input FILE`".into(),
    })?;
    match (value.get("kind").and_then(Value::as_str), value.get("format_version").and_then(Value::as_str)) {
        (Some(KIND), Some(version)) if version.split('.').next() == FORMAT_VERSION.split('.').next() => {}
        (Some(KIND), Some(version)) => {
            return Err(format!("it has format {version:?}, and this program reads {FORMAT_VERSION}"));
        }
        _ => return Err("it is no saved input: write one with `tidewright plan --save-input FILE`".into()),
    }
    serde_json::from_value(value).map_err(|error| format!("it is damaged: {error}"))
}

pub fn run(arguments: &Arguments, common: &Common) -> u8 {
    if let Err(code) = common.one_of("replay", &[Output::Human, Output::Json, Output::Markdown]) {
        return code;
    }
    let shown = arguments.file.display();
    let text = match std::fs::read_to_string(&arguments.file) {
        Ok(text) => text,
        Err(error) => return fail(&format!("cannot read `{shown}`: {error}")),
    };
    match load(&text) {
        Ok(Saved { input, directory, is_now, .. }) => {
            let made = plan(&input);
            let shown = Shown { input: &input, plan: &made, directory: &directory, is_now };
            super::plan::tell(&shown, arguments.verbose, common.output);
            super::plan::exit_code(&made)
        }
        Err(why) => fail(&format!("cannot replay `{shown}`: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::sample;

    #[test]
    fn an_input_comes_back_as_it_was() {
        let input = sample::input();
        let text = save(&input, "demo", false);
        let loaded = load(&text).unwrap();
        assert_eq!(loaded.input, input);
        assert_eq!(save(&loaded.input, &loaded.directory, loaded.is_now), text);
    }

    #[test]
    fn what_is_no_input_is_told() {
        let text = save(&sample::input(), ".", true);
        for (text, says) in [
            (&text[..text.len() / 2], "cut short"),
            ("{}", "no saved input"),
            ("kind: Fleet", "no saved input"),
            (&text.replace("\"format_version\":\"2.0\"", "\"format_version\":\"1.0\""), "1.0"),
            (&text.replace("\"now\"", "\"then\""), "damaged"),
        ] {
            assert!(load(text).err().unwrap().contains(says), "{says}");
        }
    }
}
