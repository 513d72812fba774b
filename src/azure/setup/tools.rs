use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::layers::complaint::Printable;

/// The programs that a set-up runs.
pub struct Tools {
    /// Installs the charts.
    pub helm: Tool,
    /// Binds the name, where that is wanted.
    pub az: Option<Tool>,
}

/// A program that is there.
#[derive(Clone, Debug)]
pub struct Tool {
    name: &'static str,
    path: PathBuf,
}

/// Why a program is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It said no.
    #[error("{name} failed ({status}){said}")]
    Failed {
        /// Which.
        name: &'static str,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it said on stderr.
        said: String,
    },
    /// It isn't there.
    #[error("{name} isn't on the PATH: install it ({page}), or use --dry-run and do the steps yourself")]
    Missing {
        /// Which.
        name: &'static str,
        /// Where it says how.
        page: &'static str,
    },
    /// It is too old.
    #[error("{name} is {there}, and {needed} or later is needed")]
    Old {
        /// Which.
        name: &'static str,
        /// What it says that it is.
        there: String,
        /// What is needed.
        needed: &'static str,
    },
    /// It can't be run.
    #[error("failed to run {name}")]
    Start {
        /// Which.
        name: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

const HELM: (&str, &str) = ("helm", "https://helm.sh/docs/intro/install");
const AZ: (&str, &str) = ("az", "https://learn.microsoft.com/cli/azure/install-azure-cli");
/// The first helm that keeps the values of an installed release and takes new defaults: `--reset-then-reuse-values`.
const HELM_NEEDED: ((u32, u32), &str) = ((3, 14), "3.14");

impl Tools {
    /// Looks for them on the PATH.
    ///
    /// # Errors
    /// [`ToolError`]: one that is needed isn't there, or too old.
    pub fn find(with_az: bool) -> Result<Self, ToolError> {
        let helm = Tool::find(HELM)?;
        let there = helm.output(&["version".into(), "--template".into(), "{{.Version}}".into()])?;
        let numbers: Vec<u32> = there.trim_start_matches('v').split('.').map_while(|n| n.parse().ok()).collect();
        if numbers.len() >= 2 && (numbers[0], numbers[1]) < HELM_NEEDED.0 {
            let there = there.trim().to_owned();
            return Err(ToolError::Old { name: helm.name, there, needed: HELM_NEEDED.1 });
        }
        let az = if with_az { Some(Tool::find(AZ)?) } else { None };
        Ok(Self { helm, az })
    }

    /// Where they are, one a line, for people; nothing is run.
    pub fn told(with_az: bool) -> String {
        let wanted = if with_az { &[HELM, AZ][..] } else { &[HELM] };
        let line = |&tool: &(&'static str, &'static str)| match Tool::find(tool) {
            Ok(found) => format!("{}: {}\n", found.name, found.path.display()),
            Err(error) => format!("{error}\n"),
        };
        wanted.iter().map(line).collect()
    }
}

impl Tool {
    fn find((name, page): (&'static str, &'static str)) -> Result<Self, ToolError> {
        let folders = env::var_os("PATH").unwrap_or_default();
        let file = format!("{name}{}", env::consts::EXE_SUFFIX);
        let found = env::split_paths(&folders).map(|folder| folder.join(&file)).find(|path| is_program(path));
        found.map(|path| Self { name, path }).ok_or(ToolError::Missing { name, page })
    }

    /// Runs it and returns what it printed; what it says on stderr is part of the error if it fails.
    pub(super) fn output(&self, arguments: &[String]) -> Result<String, ToolError> {
        let mut command = Command::new(&self.path);
        command.args(arguments).stdin(Stdio::null());
        let output = command.output().map_err(|source| ToolError::Start { name: self.name, source })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim().lines().map(|line| Printable(line).to_string()).collect::<Vec<_>>().join("\n  ");
            let said = if said.is_empty() { said } else { format!(":\n  {said}") };
            return Err(ToolError::Failed { name: self.name, status: output.status, said });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

/// A command as somebody can paste it into a shell.
pub(super) fn shown(name: &str, arguments: &[String]) -> String {
    let quoted = arguments.iter().map(|argument| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@".contains(c);
        if !argument.is_empty() && argument.chars().all(plain) {
            argument.clone()
        } else {
            format!("'{}'", argument.replace('\'', r"'\''"))
        }
    });
    std::iter::once(name.to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_a_shell_reads_it() {
        let arguments = ["list", "--query", "[?ipAddress=='192.0.2.1'].id", ""].map(str::to_owned);
        assert_eq!(shown("az", &arguments), r"az list --query '[?ipAddress=='\''192.0.2.1'\''].id' ''");
    }
}
