//! `tidewright completions` and `man`: what a shell and a reader want to know about the program itself.

use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Common, DONE, Output, fail, print};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright completions bash > /etc/bash_completion.d/tidewright
  tidewright completions zsh > ~/.zfunc/_tidewright
  tidewright completions fish > ~/.config/fish/completions/tidewright.fish")]
pub struct Arguments {
    /// bash, zsh, fish, elvish or powershell
    #[arg(value_name = "SHELL", value_enum, hide_possible_values = true)]
    shell: Shell,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tidewright man | man -l -                    read the page of the program
  tidewright man --out /usr/share/man/man1     write a page for every verb")]
pub struct ManArguments {
    /// Write a page for every verb into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub fn completions(arguments: &Arguments, common: &Common) -> u8 {
    if let Err(code) = common.one_of("completions", &[Output::Human]) {
        return code;
    }
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::Arguments::command(), "tidewright", &mut text);
    print(&String::from_utf8_lossy(&text));
    DONE
}

pub fn man(arguments: &ManArguments, common: &Common) -> u8 {
    if let Err(code) = common.one_of("man", &[Output::Human]) {
        return code;
    }
    let command = super::Arguments::command();
    let Some(directory) = &arguments.out else {
        let mut text = Vec::new();
        return match clap_mangen::Man::new(command).render(&mut text) {
            Ok(()) => {
                print(&String::from_utf8_lossy(&text));
                DONE
            }
            Err(error) => fail(&format!("cannot write the page: {error}")),
        };
    };
    let written = std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(command, directory));
    match written {
        Ok(()) => {
            print(&format!("{}", directory.display()));
            DONE
        }
        Err(error) => fail(&format!("cannot write into `{}`: {error}", directory.display())),
    }
}
