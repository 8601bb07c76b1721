//! One program of the control plane: started, stopped, and never left behind.
//!
//! Between us and the program stands a shell that holds the read end of a pipe of ours. However we end (return, panic,
//! interrupt, `kill -9`), the system closes the write end, and the shell kills the program. The other way round the
//! shell ends when the program does, so that a program that dies at its start is seen at once.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const WATCHDOG: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- &
program=$!
{ read -r _ <&3; kill -s KILL "$program"; } 2>/dev/null &
reader=$!
wait "$program"
status=$?
kill -s KILL "$reader" 2>/dev/null
wait "$reader" 2>/dev/null
exit "$status"
"#;

#[derive(Debug)]
pub struct Program {
    command: Vec<String>,
    directory: PathBuf,
    log: PathBuf,
    watchdog: Option<Child>,
}

impl Program {
    /// Starts it in `directory`; what it says goes to the end of `NAME.log` there.
    pub fn start(name: &str, directory: &Path, program: &Path, arguments: &[String]) -> Program {
        let mut command = vec![program.to_string_lossy().into_owned()];
        command.extend_from_slice(arguments);
        let log = directory.join(format!("{name}.log"));
        let mut started = Program { command, directory: directory.to_owned(), log, watchdog: None };
        started.start_again();
        started
    }

    pub fn start_again(&mut self) {
        self.stop();
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog"])
            .args(&self.command)
            .current_dir(&self.directory)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            // A Ctrl-C in the terminal is for the test run; what the run leaves behind is the watchdog's.
            .process_group(0)
            .spawn()
            .unwrap();
        self.watchdog = Some(watchdog);
    }

    /// Kills it, as a crash would. When this returns it is gone, and so is its hold on its port.
    pub fn stop(&mut self) {
        if let Some(mut watchdog) = self.watchdog.take() {
            drop(watchdog.stdin.take());
            watchdog.wait().unwrap();
        }
    }

    /// Why it is not running, if it is not.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.watchdog.as_mut()?.try_wait().unwrap()?;
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(15).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        Some(format!("{} ended ({status}); the end of {}:\n{}", self.command[0], self.log.display(), last.join("\n")))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The processes of this machine that have `text` among their arguments.
pub fn processes_with(text: &str) -> Vec<String> {
    let listed = Command::new("ps").args(["-A", "-o", "pid=,args="]).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    listed.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follower(directory: &Path, mark: &str) -> Program {
        std::fs::write(directory.join(mark), "").unwrap();
        Program::start("follower", directory, Path::new("tail"), &["-f".into(), mark.into()])
    }

    #[test]
    fn a_stopped_program_is_gone_when_stop_returns_and_can_be_started_again() {
        let directory = tempfile::tempdir().unwrap();
        let mark = format!("stopped-{}", std::process::id());
        let mut program = follower(directory.path(), &mark);
        assert!(program.ended().is_none());
        program.stop();
        assert_eq!(processes_with(&mark), [""; 0]);
        program.start_again();
        assert!(!processes_with(&mark).is_empty());
        drop(program);
        assert_eq!(processes_with(&mark), [""; 0]);
    }

    #[test]
    fn a_program_that_ends_by_itself_is_noticed_with_its_last_words() {
        let directory = tempfile::tempdir().unwrap();
        let arguments = ["-c".into(), "echo no such flag; exit 7".into()];
        let mut program = Program::start("broken", directory.path(), Path::new("sh"), &arguments);
        let why = super::super::api::eventually("the end is noticed", 10, || program.ended());
        assert!(why.contains("exit status: 7") && why.ends_with("no such flag"), "{why}");
    }
}
