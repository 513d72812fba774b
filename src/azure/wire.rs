//! What Azure Pipelines sends. Keys count in any case, as the older provider read them; unknown ones are left out; what
//! stands twice is refused, for two readers could take it for two things.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The longest id: a label's value.
const ID: usize = 63;
/// The longest name of an account or a pool.
const NAME: usize = 256;
/// The longest URL or token.
const LONG: usize = 8 << 10;
/// How many keys one object may have; Azure Pipelines sends a dozen.
const KEYS: usize = 64;

/// Why a body isn't what it should be. Quotes nothing of it: there are credentials in it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadBody {
    /// It is no JSON object.
    #[error("the body is no JSON object: {0}")]
    Json(String),
    /// Something that must be there isn't.
    #[error("{0} is missing or empty")]
    Missing(&'static str),
    /// Something has another type or form.
    #[error("{field} {problem}")]
    Field {
        /// Which.
        field: &'static str,
        /// What is wrong.
        problem: &'static str,
    },
    /// A release with what only an acquire has.
    #[error("a release has no AgentConfiguration; this is an acquire")]
    Acquire,
}

/// Whom a call is about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AgentRef {
    /// The agent.
    pub agent_id: String,
    /// The account (organisation).
    pub account_id: Option<String>,
    /// The pool, as Azure Pipelines calls it.
    pub agent_pool: Option<String>,
}

/// A call for an agent. It holds credentials, so nothing prints it.
#[derive(Clone)]
pub struct Acquire {
    /// Which.
    pub agent: AgentRef,
    /// Its settings: JSON for the agent, not for us.
    pub settings: String,
    /// Its credentials, likewise.
    pub credentials: String,
    /// Its version.
    pub version: String,
    /// Where it is downloaded from, by platform.
    pub download_urls: BTreeMap<String, String>,
    /// Which of the pool's images the pipeline asked for.
    pub image: Option<String>,
    /// Where to say that it won't come.
    pub fail_url: Option<String>,
    /// Where to say how it goes.
    pub message_url: Option<String>,
    /// What to show there.
    pub token: Option<String>,
}

/// A call that an agent may go, or how it is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Release {
    /// Which.
    pub agent: AgentRef,
    /// The pool that our answer to the acquire named.
    pub pool: Option<String>,
}

impl fmt::Debug for Acquire {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Acquire").field("agent", &self.agent).finish_non_exhaustive()
    }
}

impl Acquire {
    /// Reads a body.
    ///
    /// # Errors
    /// [`BadBody`].
    pub fn parse(body: &[u8]) -> Result<Self, BadBody> {
        let fields = Fields::parse(body)?;
        let agent = fields.agent()?;
        let configuration = fields.object("AgentConfiguration")?.ok_or(BadBody::Missing("AgentConfiguration"))?;
        let settings =
            configuration.raw("AgentSettings").ok_or(BadBody::Missing("AgentConfiguration.AgentSettings"))?;
        let credentials =
            configuration.raw("AgentCredentials").ok_or(BadBody::Missing("AgentConfiguration.AgentCredentials"))?;
        let mut download_urls = BTreeMap::new();
        if let Some(urls) = configuration.object("AgentDownloadUrls")? {
            for platform in urls.0.keys() {
                let url = urls.text("AgentDownloadUrls", platform, LONG)?;
                download_urls.extend(url.map(|url| (platform.clone(), url)));
            }
        }
        Ok(Self {
            agent,
            settings: settings.to_owned(),
            credentials: credentials.to_owned(),
            version: configuration.text("AgentVersion", "AgentVersion", NAME)?.unwrap_or_default(),
            download_urls,
            image: fields.image()?,
            fail_url: fields.text("FailRequestUrl", "FailRequestUrl", LONG)?,
            message_url: fields.text("AppendRequestMessageUrl", "AppendRequestMessageUrl", LONG)?,
            token: fields.text("AuthenticationToken", "AuthenticationToken", LONG)?,
        })
    }
}

impl Release {
    /// Reads a body.
    ///
    /// # Errors
    /// [`BadBody`]; [`BadBody::Acquire`] for the body of an acquire, even if there is nothing in its configuration.
    pub fn parse(body: &[u8]) -> Result<Self, BadBody> {
        let fields = Fields::parse(body)?;
        if fields.0.contains_key("agentconfiguration") {
            return Err(BadBody::Acquire);
        }
        // What is in there is ours; what isn't as we wrote it says nothing.
        let pool = match fields.object("AgentData") {
            Ok(Some(data)) => data.text("AgentData.pool", "pool", NAME)?,
            _ => None,
        };
        Ok(Self { agent: fields.agent()?, pool })
    }
}

/// An object's values by their keys in lower case, unread.
struct Fields<'b>(BTreeMap<String, &'b RawValue>);

impl<'b> Fields<'b> {
    fn parse(body: &'b [u8]) -> Result<Self, BadBody> {
        // serde_json's own text quotes nothing but what we wrote ourselves, and places.
        serde_json::from_slice(body).map_err(|error| {
            let place = format!("line {}, column {}", error.line(), error.column());
            BadBody::Json(match error.classify() {
                serde_json::error::Category::Data => format!("{place}: an object is needed, with each key once"),
                serde_json::error::Category::Eof => format!("{place}: it ends too early"),
                _ => format!("{place}: this is no JSON"),
            })
        })
    }

    fn raw(&self, key: &str) -> Option<&'b str> {
        self.0.get(&key.to_ascii_lowercase()).map(|raw| raw.get()).filter(|raw| *raw != "null")
    }

    /// A string; a number counts as its digits, for ids are sent as both.
    fn text(&self, field: &'static str, key: &str, longest: usize) -> Result<Option<String>, BadBody> {
        let Some(raw) = self.raw(key) else { return Ok(None) };
        let text = match raw.as_bytes().first() {
            Some(b'"') => serde_json::from_str(raw).map_err(|_| BadBody::Field { field, problem: "is no text" })?,
            Some(b'0'..=b'9') => raw.to_owned(),
            _ => return Err(BadBody::Field { field, problem: "is no text" }),
        };
        if text.len() > longest {
            return Err(BadBody::Field { field, problem: "is too long" });
        }
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    fn object(&self, field: &'static str) -> Result<Option<Self>, BadBody> {
        let Some(raw) = self.raw(field) else { return Ok(None) };
        let bad = |_| BadBody::Field { field, problem: "is no object with each key once" };
        serde_json::from_str(raw).map(Some).map_err(bad)
    }

    fn agent(&self) -> Result<AgentRef, BadBody> {
        let agent_id = self.text("AgentId", "AgentId", ID)?.ok_or(BadBody::Missing("AgentId"))?;
        if !is_label_value(&agent_id) {
            let problem = "is no id: letters, digits, '-', '_' and '.', the first and last a letter or digit";
            return Err(BadBody::Field { field: "AgentId", problem });
        }
        let account_id = self.text("AccountId", "AccountId", NAME)?;
        Ok(AgentRef { agent_id, account_id, agent_pool: self.text("AgentPool", "AgentPool", NAME)? })
    }

    /// The image that the agent specification names: the object under `pool:` in the pipeline.
    fn image(&self) -> Result<Option<String>, BadBody> {
        let field = if self.raw("AgentSpecification").is_some() { "AgentSpecification" } else { "AgentSpec" };
        match self.raw(field) {
            Some(raw) if raw.starts_with('"') => self.text(field, field, NAME),
            _ => {
                let Some(specification) = self.object(field)? else { return Ok(None) };
                let image = specification.text("AgentSpec.image", "image", NAME)?;
                Ok(match image {
                    Some(image) => Some(image),
                    None => specification.text("AgentSpec.vmImage", "vmImage", NAME)?,
                })
            }
        }
    }
}

/// Whether a text can be a label's value; in a selector it then means itself.
fn is_label_value(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    let bytes = text.as_bytes();
    bytes.iter().copied().all(inner)
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Fields<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = BTreeMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    let value: &RawValue = map.next_value()?;
                    if fields.insert(key.to_ascii_lowercase(), value).is_some() || fields.len() > KEYS {
                        return Err(A::Error::custom("a key twice, or too many"));
                    }
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = r#"{"AGENTID":"a-1","accountId":"acc","AgentPool":"k8s","junk":[1,{"AgentId":"x"}],
        "agentConfiguration":{"agentsettings":{"PoolId":3},"AgentCredentials":{"scheme":"OAuth","data":{"x":"y"}},
        "AgentVersion":"2.1","AgentDownloadUrls":{"linux-x64":"https://x/y.tgz"}},
        "agentSpecification":{"vmImage":"tools"},"FailRequestUrl":"https://dev.azure.com/f"}"#;

    #[test]
    fn keys_count_in_any_case_and_what_is_the_agents_stays_as_it_is() {
        let acquire = Acquire::parse(BODY.as_bytes()).unwrap();
        assert_eq!((acquire.agent.agent_id.as_str(), acquire.agent.account_id.as_deref()), ("a-1", Some("acc")));
        assert_eq!(acquire.settings, r#"{"PoolId":3}"#);
        assert_eq!(acquire.credentials, r#"{"scheme":"OAuth","data":{"x":"y"}}"#);
        assert_eq!((acquire.version.as_str(), acquire.image.as_deref()), ("2.1", Some("tools")));
        assert_eq!(acquire.download_urls["linux-x64"], "https://x/y.tgz");
        assert!(!format!("{acquire:?}").contains("OAuth"));
    }

    #[test]
    fn what_is_wrong_is_named_and_nothing_of_it_quoted() {
        let told = |body: &str| Acquire::parse(body.as_bytes()).unwrap_err().to_string();
        for (body, want) in [
            ("", "the body is no JSON object: line 1, column 0: it ends too early"),
            ("[]", "the body is no JSON object: line 1, column 0: an object is needed, with each key once"),
            ("{\"AgentId\":1} x", "the body is no JSON object: line 1, column 15: this is no JSON"),
            ("{}", "AgentId is missing or empty"),
            (r#"{"AgentId":""}"#, "AgentId is missing or empty"),
            (r#"{"AgentId":null}"#, "AgentId is missing or empty"),
            (r#"{"AgentId":["a"]}"#, "AgentId is no text"),
            (r#"{"AgentId":"a","AgentPool":true}"#, "AgentPool is no text"),
            (r#"{"AgentId":"a"}"#, "AgentConfiguration is missing or empty"),
            (r#"{"AgentId":"a","AgentConfiguration":{}}"#, "AgentConfiguration.AgentSettings is missing or empty"),
            (r#"{"AgentId":"a","AgentConfiguration":7}"#, "AgentConfiguration is no object with each key once"),
        ] {
            assert_eq!(told(body), want, "{body}");
        }
        assert!(told(r#"{"AgentId":"a","agentid":"b"}"#).contains("each key once"));
        for bad in ["a b", "a,b", "-a", "a=b", "ä", "a/b", "a!"] {
            assert!(told(&format!(r#"{{"AgentId":"{bad}"}}"#)).starts_with("AgentId is no id"), "{bad}");
        }
        assert_eq!(told(&format!(r#"{{"AgentId":"{}"}}"#, "a".repeat(64))), "AgentId is too long");
    }

    #[test]
    fn ids_are_numbers_too_and_a_release_that_is_an_acquire_is_refused() {
        let release = Release::parse(br#"{"agentId":17,"AgentData":{"pool":"ci/p"}}"#).unwrap();
        assert_eq!((release.agent.agent_id.as_str(), release.pool.as_deref()), ("17", Some("ci/p")));
        assert_eq!(Release::parse(BODY.as_bytes()), Err(BadBody::Acquire));
        assert_eq!(Release::parse(br#"{"AgentId":"a","AGENTCONFIGURATION":null}"#), Err(BadBody::Acquire));
        assert!(Release::parse(br#"{"AgentId":"a","AgentData":"free text"}"#).unwrap().pool.is_none());
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = format!(r#"{{"AgentId":"a","x":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert!(Acquire::parse(deep.as_bytes()).is_err());
    }
}
