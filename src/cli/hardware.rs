//! `tidewright hardware`: the catalogue.

use super::{Common, DONE, Output, fail, json, print};
use crate::diag::nearest;
use crate::hardware::catalogue;
use crate::render::hardware;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright hardware                          all instance types
  tidewright hardware p5.48xlarge              one of them, every figure with its source
  tidewright hardware h100-sxm                 a GPU, with the MIG slices it can be cut into")]
pub struct Arguments {
    /// An instance type or a GPU model
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

pub fn run(arguments: &Arguments, common: &Common) -> u8 {
    if let Err(code) = common.one_of("hardware", &[Output::Human, Output::Json]) {
        return code;
    }
    let catalogue = catalogue();
    let text = match (&arguments.name, common.output) {
        (None, Output::Json) => Some(json(&hardware::json(catalogue))),
        (None, _) => Some(hardware::table(catalogue)),
        (Some(name), Output::Json) => hardware::json_one(catalogue, name).map(|value| json(&value)),
        (Some(name), _) => hardware::one(catalogue, name),
    };
    match text {
        Some(text) => {
            print(&text);
            DONE
        }
        None => {
            let name = arguments.name.as_deref().unwrap_or_default();
            let types = catalogue.types.keys().map(|name| name.as_str());
            let near = nearest(name, types.chain(catalogue.gpus.keys().map(|model| model.as_str())));
            let near = near
                .map_or("`tidewright hardware` lists what is known".into(), |near| format!("did you mean `{near}`?"));
            fail(&format!("nothing is known about `{name}`: {near}"))
        }
    }
}
