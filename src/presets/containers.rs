use serde::Deserialize;

use crate::value::{Value, glob_matches};

/// A list of containers in a pod's spec.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ContainerList {
    /// `containers`
    Containers,
    /// `initContainers`
    InitContainers,
}

/// What a container is there for.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The CI system's own machinery.
    Agent,
    /// Fetches what is built.
    Checkout,
    /// Runs what the author wrote.
    Command,
    /// Runs beside it: a service, a daemon.
    Sidecar,
}

/// Containers, told by what they look like.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Members {
    /// Among `containers`: those that any of these fits.
    pub containers: Vec<Rule>,
    /// Among `initContainers`: the same.
    pub init_containers: Vec<Rule>,
}

/// What a container must be like; all parts that are given must fit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Its name fits one of these globs; any name where there are none.
    pub names: Vec<String>,
    /// Its name fits none of these globs.
    pub not: Vec<String>,
    /// It has this variable.
    pub env: Option<String>,
    /// This is the first word of its command.
    pub command: Option<String>,
    /// It is an init container that goes on running (`restartPolicy: Always`).
    pub native: bool,
}

impl ContainerList {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Containers, Self::InitContainers];

    /// The name of the field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Containers => "containers",
            Self::InitContainers => "initContainers",
        }
    }

    /// The containers of a pod's spec in this list.
    pub fn of<'v, 'a>(self, spec: Option<&'v Value<'a>>) -> &'v [Value<'a>] {
        spec.and_then(|spec| spec.get(self.as_str())).and_then(Value::as_list).unwrap_or_default()
    }
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Agent, Self::Checkout, Self::Command, Self::Sidecar];

    /// As it is written behind `@`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Checkout => "checkout",
            Self::Command => "command",
            Self::Sidecar => "sidecar",
        }
    }

    /// The role of this name, without `@`.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

impl Members {
    /// Those of one list.
    pub fn rules(&self, list: ContainerList) -> &[Rule] {
        match list {
            ContainerList::Containers => &self.containers,
            ContainerList::InitContainers => &self.init_containers,
        }
    }

    /// Whether a container of this list is meant.
    pub fn fit(&self, list: ContainerList, container: &Value<'_>) -> bool {
        self.rules(list).iter().any(|rule| rule.fits(container))
    }
}

impl Rule {
    fn fits(&self, container: &Value<'_>) -> bool {
        let text = |key: &str| container.get(key).and_then(Value::as_str);
        let Some(name) = text("name") else { return false };
        let any = |globs: &[String]| globs.iter().any(|glob| glob_matches(glob, name));
        let has = |variable: &str| {
            let env = container.get("env").and_then(Value::as_list).unwrap_or_default();
            env.iter().any(|item| item.get("name").and_then(Value::as_str) == Some(variable))
        };
        let starts = |word: &str| {
            let words = container.get("command").and_then(Value::as_list).unwrap_or_default();
            words.first().and_then(Value::as_str) == Some(word)
        };
        (self.names.is_empty() || any(&self.names))
            && !any(&self.not)
            && self.env.as_deref().is_none_or(has)
            && self.command.as_deref().is_none_or(starts)
            && (!self.native || text("restartPolicy") == Some("Always"))
    }
}
