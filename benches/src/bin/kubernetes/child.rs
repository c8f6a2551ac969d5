//! The bench's own program, started again in one of its other roles.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use crate::fleet::Fleet;

pub(crate) struct Role {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Role {
    /// The watch alone, not yet asked to begin.
    pub(crate) fn engine(fleet: &Fleet) -> Self {
        Self::start(&["engine", fleet.kubeconfig.to_str().expect("text"), &fleet.namespace])
    }

    /// A table alone.
    pub(crate) fn table(size: usize) -> Self {
        Self::start(&["table", &size.to_string()])
    }

    fn start(arguments: &[&str]) -> Self {
        let program = std::env::current_exe().expect("our own path");
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start ourselves");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut role = Role { child, out };
        role.hears("started");
        role
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it begin, and gives the seconds until it is ready.
    pub(crate) fn until_ready(&mut self) -> f64 {
        let began = Instant::now();
        self.child.stdin.as_mut().expect("a pipe").write_all(b"g").expect("tell the child");
        self.hears("ready");
        began.elapsed().as_secs_f64()
    }

    fn hears(&mut self, word: &str) {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("read from the child");
        assert_eq!(line.trim(), word, "the child ended");
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // Its end is awaited; how it ended does not matter any more.
        let _ = self.child.wait();
    }
}
