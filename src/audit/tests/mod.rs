//! Plans of the normal flows, which pass, and each of their mutations, which is caught by the law that it breaks.

mod admission;
mod bench;
mod budgets;
mod clothes;
mod drains;
mod exchange;
mod fabric;
mod files;
mod flows;
mod launches;
mod money;
mod names;
mod on_the_way;
mod others;
mod owners;
mod quotas;
mod recommended;
mod records;
mod renames;
mod scale;

use super::*;
