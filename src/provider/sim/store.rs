//! The state file: one JSON document, written whole beside the old one and then put in its place.
//!
//! A reader sees the old state or the new one, never a half; a process that is killed leaves the last whole state. One
//! writer at a time, kept by a lock on a file beside it, which the operating system lifts when the writer dies. On any
//! error the file stays as it is.
//!
//! What a person writes down while somebody else has the state, such as a freeze, goes into a file of notes beside it.
//! Whoever has the state hears the notes before it looks at the ledger, and so does whoever opens it next.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::State;
use crate::effect::LedgerChange;

/// Of the format. A higher one was written by a newer program.
pub const VERSION: u32 = 1;
const NOTES: &str = "notes";

#[derive(Debug, thiserror::Error)]
pub enum SimError {
    #[error("the simulator's state {path} cannot be {doing}: {why}", path = path.display())]
    Io { path: PathBuf, doing: &'static str, why: io::Error },
    #[error(
        "the simulator's state {path} is damaged ({why}); it was left as it is: restore a copy of it, or move it away \
         to begin anew",
        path = path.display()
    )]
    Damaged { path: PathBuf, why: String },
    #[error(
        "the simulator's state {path} was written by a newer tidewright (format {found}, this one knows {VERSION}); it \
         was left as it is: use that version, or another state file",
        path = path.display()
    )]
    Newer { path: PathBuf, found: u32 },
    #[error(
        "another tidewright is working with the simulator's state {path}: wait until it ends",
        path = path.display()
    )]
    Held { path: PathBuf },
    #[error("the simulator's state {path} was opened for looking only: nothing can be changed", path = path.display())]
    ReadOnly { path: PathBuf },
}

/// Where a state comes from and goes to.
#[derive(Debug)]
pub enum Store {
    /// Nowhere: it ends with the process.
    Memory,
    /// A file that is ours until the lock is dropped.
    File { path: PathBuf, _lock: File },
    /// A file that somebody else may be writing.
    ReadOnly { path: PathBuf },
}

impl Store {
    /// Takes the file for this process, and reads it if it is there.
    pub fn open(path: &Path) -> Result<(Self, Option<State>), SimError> {
        let lock = lock(path)?;
        let state = read(path)?;
        Ok((Self::File { path: path.to_path_buf(), _lock: lock }, state))
    }

    pub fn peek(path: &Path) -> Result<(Self, Option<State>), SimError> {
        Ok((Self::ReadOnly { path: path.to_path_buf() }, read(path)?))
    }

    /// Whether it may be changed at all.
    pub fn check(&self) -> Result<(), SimError> {
        match self {
            Self::ReadOnly { path } => Err(SimError::ReadOnly { path: path.clone() }),
            Self::Memory | Self::File { .. } => Ok(()),
        }
    }

    /// What somebody wrote down beside it.
    pub fn notes(&self) -> Result<Option<Notes>, SimError> {
        match self {
            Self::Memory => Ok(None),
            Self::File { path, .. } | Self::ReadOnly { path } => Notes::of(path),
        }
    }

    pub fn write(&self, state: &State) -> Result<(), SimError> {
        self.check()?;
        match self {
            Self::File { path, .. } => replace(path, state).map_err(failed(path, "written")),
            Self::Memory | Self::ReadOnly { .. } => Ok(()),
        }
    }
}

/// Writes a note for whoever has the state.
pub fn note(path: &Path, change: &LedgerChange) -> Result<(), SimError> {
    let failed = failed(path, "written");
    let notes = fs::OpenOptions::new().create(true).append(true).open(beside(path, NOTES));
    let mut notes = notes.map_err(&failed)?;
    let line = serde_json::to_string(change).map_err(io::Error::from).map_err(&failed)?;
    notes.lock().map_err(&failed)?;
    writeln!(notes, "{line}").map_err(&failed)
}

/// The notes beside a state that nobody has heard yet. As long as they are in hand nobody writes another.
#[derive(Debug)]
pub struct Notes {
    pub changes: Vec<LedgerChange>,
    file: File,
}

impl Notes {
    /// Nothing where there are none, which is nearly always, and costs one look at a file's length.
    pub fn of(path: &Path) -> Result<Option<Self>, SimError> {
        let (path, failed) = (beside(path, NOTES), failed(path, "read"));
        if !fs::metadata(&path).is_ok_and(|found| found.len() > 0) {
            return Ok(None);
        }
        let mut file = fs::OpenOptions::new().read(true).write(true).open(&path).map_err(&failed)?;
        file.lock().map_err(&failed)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(&failed)?;
        let damaged = |why: serde_json::Error| SimError::Damaged { path: path.clone(), why: why.to_string() };
        let changes = text.lines().map(serde_json::from_str).collect::<Result<_, _>>().map_err(damaged)?;
        Ok(Some(Self { changes, file }))
    }

    /// They are in the state that was written. Whoever dies before this hears them again, which changes nothing.
    pub fn done(self) -> io::Result<()> {
        self.file.set_len(0)
    }
}

/// Puts a state file aside, so that the next run begins anew. Says where it went.
pub fn put_aside(path: &Path) -> Result<Option<PathBuf>, SimError> {
    let _lock = lock(path)?;
    // A world that was put aside before is kept: somebody may want it back.
    let names = (1..).map(|number| if number == 1 { "old".into() } else { format!("old.{number}") });
    let aside = names.map(|name: String| beside(path, &name)).find(|aside| !aside.exists());
    let aside = aside.expect("numbers do not run out before the disk does");
    // What somebody wrote down for it, and nobody heard, is about that world and goes with it. It goes first: a new world
    // must not hear it.
    moved(&beside(path, NOTES), &beside(&aside, NOTES)).map_err(failed(path, "put aside"))?;
    let there = moved(path, &aside).map_err(failed(path, "put aside"))?;
    Ok(there.then_some(aside))
}

/// Whether there was a file to move.
fn moved(from: &Path, to: &Path) -> io::Result<bool> {
    match fs::rename(from, to) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn lock(path: &Path) -> Result<File, SimError> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed(path, "locked"))?;
    }
    // The lock file stays for ever: removing it would let two processes each lock a file of the same name.
    let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(beside(path, "lock"));
    let file = file.map_err(failed(path, "locked"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(SimError::Held { path: path.to_path_buf() }),
        Err(TryLockError::Error(why)) => Err(failed(path, "locked")(why)),
    }
}

fn read(path: &Path) -> Result<Option<State>, SimError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path, "read")(error)),
    };
    #[derive(Deserialize)]
    struct Head {
        version: u32,
    }
    let damaged = |why: serde_json::Error| SimError::Damaged { path: path.to_path_buf(), why: why.to_string() };
    // The version first: what else a newer file holds is not ours to judge.
    let head: Head = serde_json::from_slice(&text).map_err(damaged)?;
    if head.version > VERSION {
        return Err(SimError::Newer { path: path.to_path_buf(), found: head.version });
    }
    serde_json::from_slice(&text).map(Some).map_err(damaged)
}

fn replace(path: &Path, state: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(state)?;
    let fresh = beside(path, "new");
    // Not flushed to the disk: that would cost most of the time of a call, and only a power cut needs it. What that
    // leaves is either whole or told as damaged.
    fs::write(&fresh, &text)?;
    fs::rename(&fresh, path)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

fn failed(path: &Path, doing: &'static str) -> impl Fn(io::Error) -> SimError {
    let path = path.to_path_buf();
    move |why| SimError::Io { path: path.clone(), doing, why }
}

#[cfg(test)]
mod tests;
