//! Source files from a directory: a fleet's own documents, what it includes, and the files that its documents name.
//!
//! Reads, and changes nothing. What cannot be read is a diagnostic, never the end of the run. Nothing outside the git
//! repository that holds the directory is ever read, also not through a link.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::diag::{Diagnostic, SourceFile, Sources, Span, codes, sort};
use crate::fleet::Fleet;
use crate::fleet::config::Kubernetes;
use crate::fleet::launch::Bootstrap;
use crate::manifest::fleet::FleetSpec;
use crate::manifest::tree::MAX_FILE_BYTES;
use crate::manifest::{self, Manifest, Spec, Step};
use crate::units::ZoneName;

/// More files than any fleet has; a wrong path such as `/` stops here.
const MAX_FILES: usize = 20_000;

const READABLE: &str = "make the file readable, or remove it";

/// Everything that was read, parsed but not yet understood.
#[derive(Default, Debug)]
pub struct Loaded {
    pub sources: Sources,
    pub manifests: Vec<Manifest>,
    pub diagnostics: Vec<Diagnostic>,
}

/// A fleet's directory, read and checked.
#[derive(Debug)]
pub struct Checked {
    pub sources: Sources,
    pub documents: usize,
    /// There only if nothing is wrong.
    pub fleet: Option<Fleet>,
    /// Sorted by file and line.
    pub diagnostics: Vec<Diagnostic>,
}

/// Loads, parses and lowers a fleet's directory. `now` is where the two weeks begin in which sums are checked.
pub fn check(directory: &Path, now: jiff::Timestamp) -> Checked {
    load(directory).check(now)
}

impl Loaded {
    /// Lowers what was read, and sorts all that is wrong with it.
    pub fn check(self, now: jiff::Timestamp) -> Checked {
        let Loaded { sources, manifests, mut diagnostics } = self;
        let (fleet, mut found) = match manifests.as_slice() {
            [] => (None, Vec::new()),
            _ => manifest::lower(&manifests, &sources, now),
        };
        diagnostics.append(&mut found);
        sort(&sources, &mut diagnostics);
        let fleet = fleet.filter(|_| !diagnostics.iter().any(Diagnostic::is_error));
        Checked { sources, documents: manifests.len(), fleet, diagnostics }
    }

    /// The time zone that the Fleet document names, if that could be read.
    pub fn time_zone(&self) -> Option<&ZoneName> {
        self.fleet().map(|spec| &spec.time_zone)
    }

    /// The cluster that the Fleet document names, if that could be read.
    pub fn kubernetes(&self) -> Option<&Kubernetes> {
        self.fleet().map(|spec| &spec.kubernetes)
    }

    fn fleet(&self) -> Option<&FleetSpec> {
        self.manifests.iter().find_map(|manifest| match &manifest.body.as_ref()?.spec {
            Spec::Fleet(spec) => Some(&**spec),
            _ => None,
        })
    }
}

/// Reads all YAML files below a directory, those of the directories that its Fleet includes, and the files that
/// documents name. Hidden files and directories are passed over.
pub fn load(directory: &Path) -> Loaded {
    let mut loader = Loader { loaded: Loaded::default(), seen: BTreeSet::new(), root: None, full: false };
    let nothing = |message: String, hint: &str| Diagnostic::error(codes::NOTHING_TO_READ, message).hint(hint);
    let shown = directory.display();
    match std::fs::canonicalize(directory) {
        Err(error) => {
            let message = match error.kind() {
                std::io::ErrorKind::NotFound => format!("there is no directory `{shown}`"),
                _ => format!("cannot read `{shown}`: {error}"),
            };
            let said = nothing(message, "name a fleet's directory: tidewright validate DIR");
            loader.loaded.diagnostics.push(said);
            return loader.loaded;
        }
        Ok(real) if real.is_file() => {
            let said = nothing(
                format!("`{shown}` is a file"),
                "a fleet is a directory: name the directory that the file is in",
            );
            loader.loaded.diagnostics.push(said);
            return loader.loaded;
        }
        Ok(real) => loader.root = Some(repository(&real)),
    }
    loader.directory(directory, &plain(directory));
    if loader.loaded.sources.is_empty() && loader.loaded.diagnostics.is_empty() {
        let said = nothing(format!("there is no YAML file in `{shown}`"), "write a fleet into it: tidewright init DIR");
        loader.loaded.diagnostics.push(said);
    } else if loader.loaded.manifests.is_empty() && !loader.loaded.diagnostics.iter().any(Diagnostic::is_error) {
        let message = format!("there is no document in any file of `{shown}`");
        loader.loaded.diagnostics.push(nothing(message, "write a fleet into it, or name another directory"));
    }
    loader.mentioned(directory);
    loader.loaded
}

/// Adds a file that is in memory.
pub fn add_bytes(loaded: &mut Loaded, path: &str, bytes: &[u8]) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.to_string(),
        Err(error) => {
            // Shown with the bad bytes replaced, up to and including the first of them.
            let text = String::from_utf8_lossy(bytes).into_owned();
            let start = u32::try_from(error.valid_up_to()).unwrap_or(0);
            let file = loaded.sources.add(SourceFile { path: path.into(), text: text.into(), revision: None });
            let span = Span { file, start, end: start };
            let message = if matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
                "the file is UTF-16, not UTF-8".into()
            } else {
                format!("byte {start} of the file is not UTF-8")
            };
            loaded
                .diagnostics
                .push(Diagnostic::error(codes::NOT_TEXT, message).at(span, "").hint("save the file as UTF-8"));
            loaded.manifests.push(manifest::parse::unreadable(span));
            return;
        }
    };
    let file = loaded.sources.add(SourceFile { path: path.into(), text: text.into(), revision: None });
    manifest::parse_file(&loaded.sources, file, &mut loaded.manifests, &mut loaded.diagnostics);
}

/// The directory that holds `.git`, or the directory itself where there is no repository.
fn repository(directory: &Path) -> PathBuf {
    let holds_git = |path: &&Path| path.join(".git").exists();
    directory.ancestors().find(holds_git).unwrap_or(directory).to_path_buf()
}

/// How a directory is written in front of its files: nothing for the current one.
fn plain(directory: &Path) -> String {
    let text = directory.to_string_lossy().replace('\\', "/");
    let text = text.trim_end_matches('/');
    match text.strip_prefix("./").unwrap_or(text) {
        "." => String::new(),
        "" if directory.is_absolute() => "/".into(),
        rest => rest.into(),
    }
}

struct Loader {
    loaded: Loaded,
    /// Files that were read, by their real paths: an include may name a directory twice.
    seen: BTreeSet<PathBuf>,
    root: Option<PathBuf>,
    /// Whether there were too many files. What else there is, is not read.
    full: bool,
}

impl Loader {
    /// Reads all YAML files below a directory, and says whether there are any.
    fn directory(&mut self, directory: &Path, shown: &str) -> bool {
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => {
                let message = format!("cannot read the directory `{}`: {error}", directory.display());
                let said = Diagnostic::error(codes::NOTHING_TO_READ, message);
                self.loaded.diagnostics.push(said.hint("make it readable, or move it out of the fleet's directory"));
                return true;
            }
        };
        let mut any = false;
        let mut names: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
        names.sort();
        for path in names {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let below = if shown.is_empty() { name.clone() } else { format!("{}/{name}", shown.trim_end_matches('/')) };
            if name.starts_with('.') {
                continue;
            }
            if path.is_dir() {
                // A link to a directory may lead in a circle; a fleet has no need of one.
                if !path.is_symlink() {
                    any |= self.directory(&path, &below);
                }
            } else if name.ends_with(".yaml") || name.ends_with(".yml") {
                any = true;
                if self.loaded.sources.len() < MAX_FILES {
                    self.file(&path, &below);
                } else if !std::mem::replace(&mut self.full, true) {
                    let message = format!("more than {MAX_FILES} YAML files below `{}`", directory.display());
                    let said = Diagnostic::error(codes::TOO_LARGE, message);
                    self.loaded.diagnostics.push(said.hint("name a fleet's directory: tidewright validate DIR"));
                }
            }
        }
        any
    }

    fn file(&mut self, path: &Path, shown: &str) {
        let real = match std::fs::canonicalize(path) {
            Ok(real) => real,
            Err(_) if path.is_symlink() => {
                return self.unreadable(shown, "it is a link that leads nowhere", "mend the link, or remove it");
            }
            Err(error) => return self.unreadable(shown, &error.to_string(), READABLE),
        };
        if !self.root.as_ref().is_some_and(|root| real.starts_with(root)) {
            let hint = "put the file itself here, so that a revision says everything";
            return self.unreadable(shown, "it is a link that leads out of the repository", hint);
        }
        if !self.seen.insert(real.clone()) {
            return;
        }
        let metadata = std::fs::metadata(&real);
        // Reading a pipe or a device may never end.
        if metadata.as_ref().is_ok_and(|metadata| !metadata.is_file()) {
            return self.unreadable(shown, "it is no regular file", "remove it, or give it another ending than .yaml");
        }
        if metadata.is_ok_and(|metadata| metadata.len() > MAX_FILE_BYTES as u64) {
            let file = self.loaded.sources.add(SourceFile { path: shown.into(), text: "".into(), revision: None });
            let span = Span { file, start: 0, end: 0 };
            self.loaded.diagnostics.push(manifest::tree::too_large(span));
            self.loaded.manifests.push(manifest::parse::unreadable(span));
            return;
        }
        match std::fs::read(&real) {
            Ok(bytes) => add_bytes(&mut self.loaded, shown, &bytes),
            Err(error) => self.unreadable(shown, &error.to_string(), READABLE),
        }
    }

    fn unreadable(&mut self, shown: &str, why: &str, hint: &str) {
        let file = self.loaded.sources.add(SourceFile { path: shown.into(), text: "".into(), revision: None });
        let span = Span { file, start: 0, end: 0 };
        let said = Diagnostic::error(codes::FILE_REFERENCE, format!("the file cannot be read: {why}")).at(span, "");
        self.loaded.diagnostics.push(said.hint(hint));
        self.loaded.manifests.push(manifest::parse::unreadable(span));
    }

    /// Reads what documents name: included directories, then the declared fabric and user data.
    fn mentioned(&mut self, directory: &Path) {
        let mut includes = Vec::new();
        for manifest in &self.loaded.manifests {
            if let Some(Spec::Fleet(spec)) = manifest.body.as_ref().map(|body| &body.spec) {
                for (index, path) in spec.include.iter().enumerate() {
                    let at = manifest.at(&[Step::Field("include"), Step::Item(index)]);
                    includes.push((manifest.tree.span.file, path.clone(), at));
                }
            }
        }
        for (from, path, at) in includes {
            self.include(directory, from, &path, at);
        }
        let mut files = Vec::new();
        for manifest in &self.loaded.manifests {
            let from = manifest.tree.span.file;
            match manifest.body.as_ref().map(|body| &body.spec) {
                Some(Spec::Fleet(spec)) => {
                    let declared = spec.fabric.as_ref().and_then(|fabric| fabric.declared.as_ref());
                    files.extend(declared.map(|declared| (from, declared.file.clone())));
                }
                Some(Spec::NodePool(spec)) => {
                    if let Some(Bootstrap::UserData(data)) = spec.launch.as_ref().map(|launch| &launch.bootstrap) {
                        files.push((from, data.file.clone()));
                    }
                }
                _ => {}
            }
        }
        for (from, path) in files {
            let shown = manifest::csv::beside(&self.loaded.sources, from, &path);
            let real = self.beside(directory, from, &path);
            // What cannot be read is reported by who needs it, at the place that names it.
            if !Path::new(&path).is_absolute()
                && !self.loaded.sources.iter().any(|(_, source)| *source.path == *shown)
                && let Ok(real) = std::fs::canonicalize(&real)
                && self.root.as_ref().is_some_and(|root| real.starts_with(root))
                && std::fs::metadata(&real).is_ok_and(|m| m.is_file() && m.len() <= MAX_FILE_BYTES as u64)
                && let Ok(text) = std::fs::read_to_string(&real)
            {
                self.loaded.sources.add(SourceFile { path: shown.into(), text: text.into(), revision: None });
            }
        }
    }

    fn include(&mut self, directory: &Path, from: u32, path: &str, at: Span) {
        let refuse = |loader: &mut Self, message: String, hint: &str| {
            loader.loaded.diagnostics.push(Diagnostic::error(codes::INCLUDE, message).at(at, "").hint(hint));
            // What was to be included is unknown, so names that it may hold are not missing.
            loader.loaded.manifests.push(manifest::parse::unreadable(at));
        };
        if path.is_empty() || Path::new(path).is_absolute() {
            let what = if path.is_empty() { "an empty path".into() } else { format!("`{path}`, an absolute path") };
            return refuse(self, format!("`include` names {what}"), "write a path relative to this file: ../common");
        }
        let real = match std::fs::canonicalize(self.beside(directory, from, path)) {
            Err(_) => {
                return refuse(
                    self,
                    format!("the directory `{path}` is not there"),
                    "write a path relative to this file",
                );
            }
            Ok(real) if !real.is_dir() => {
                return refuse(self, format!("`{path}` is not a directory"), "name the directory that the file is in");
            }
            Ok(real) => real,
        };
        if !self.root.as_ref().is_some_and(|root| real.starts_with(root)) {
            let hint = "include directories of the same git repository only, so that a revision says everything";
            return refuse(self, format!("`{path}` is outside the repository"), hint);
        }
        let shown = manifest::csv::beside(&self.loaded.sources, from, path);
        if !self.directory(&real, &shown) {
            refuse(self, format!("the directory `{path}` holds no YAML file"), "remove it from `include`");
        }
    }

    /// The path of something that a document names, from the directory of the document's own file.
    fn beside(&self, directory: &Path, from: u32, path: &str) -> PathBuf {
        let own = &self.loaded.sources.file(from).path;
        let base = if own.starts_with('/') {
            PathBuf::from("/")
        } else {
            std::env::current_dir().unwrap_or_else(|_| directory.into())
        };
        base.join(Path::new(&**own).parent().unwrap_or(Path::new(""))).join(path)
    }
}
