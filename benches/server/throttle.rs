//! A webhook that gets a part of a core only, as under `limits.cpu`.

use std::{
    error::Error,
    process::{Child, Command, Stdio},
};

use crate::process::Webhook;

/// Stops the process and lets it go on, again and again; ended when dropped, and then the process goes on.
///
/// Linux does the same to a container that has used up its quota: nothing of it runs until the next tenth of a second.
pub(crate) struct Throttle {
    shell: Child,
    id: String,
}

impl Throttle {
    /// Lets it run for so many milliseconds out of 100.
    pub(crate) fn start(webhook: &Webhook, runs: u32) -> Result<Self, Box<dyn Error>> {
        let id = webhook.id().to_string();
        let [runs, stops] = [runs, 100 - runs].map(|millis| format!("0.{millis:03}"));
        let shell = Command::new("sh")
            .args(["-c", "while kill -STOP $1; do sleep $2; kill -CONT $1; sleep $3; done", "sh", &id, &stops, &runs])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { shell, id })
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
        let _ = Command::new("kill").args(["-CONT", &self.id]).status();
    }
}
