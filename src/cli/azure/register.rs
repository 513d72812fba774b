use std::{fs, path::PathBuf, time::Duration};

use serde::Serialize;

use crate::{
    azure::{
        DnsName, SharedSecret,
        registration::{
            self, Client, Endpoints, Entry, Optional, Organization, Pat, PoolPath, Registered, Registration,
        },
    },
    cli::{
        report::{CliError, Outcome, print},
        start,
    },
};

/// Flags of `azure register`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The PAT is read from AZURE_DEVOPS_EXT_PAT, or asked for on the terminal. It needs the scope Agent \
                        Pools (read and manage). It isn't a flag: flags can be seen by other users of the machine.\n\nRun \
                        again, it finds what is there. A shared secret can't be read back, so whether the one that is \
                        registered is the file's can't be told.\n\nExample:\n  podlayer azure register --uri \
                        https://dev.azure.com/example --pool linux --dns-name agents.example.com \\\n    \
                        --shared-secret-file secret.txt --target-size 10\n\nExit codes: 0 registered, 2 usage or failure."
)]
pub(super) struct Args {
    #[command(flatten)]
    service: ServiceArgs,
    /// The pool's name in Azure DevOps, and the agent cloud's.
    #[arg(long, value_name = "NAME", value_parser = pool_name)]
    pool: String,
    /// The public name of the endpoint.
    #[arg(long, value_name = "NAME")]
    dns_name: DnsName,
    /// File with the shared secret; one newline at its end is no part of it.
    #[arg(long, value_name = "FILE")]
    shared_secret_file: PathBuf,
    /// How many agents Azure DevOps asks for at once, at most.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    target_size: u32,
    /// The AgentPool whose own paths are called; else /acquire and /release, which are the default pool's.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    agent_pool: Option<PoolPath>,
    /// Also registers these endpoints.
    #[arg(long = "with", value_name = "ENDPOINT,…", value_delimiter = ',', requires = "agent_pool")]
    optional: Vec<OptionalEndpoint>,
}

/// What `register` and `unregister` need to talk to Azure DevOps.
#[derive(Debug, clap::Args)]
pub(super) struct ServiceArgs {
    /// The organisation, https://dev.azure.com/NAME, or a collection of Azure DevOps Server.
    #[arg(long, value_name = "URI")]
    // Read by hand: clap shows what it can't read, and here that might hold a credential.
    uri: String,
    /// More certificate authorities to trust, such as of a server of your own.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// How long one answer may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout_seconds: u64,
    /// How the outcome is printed.
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    output: String,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OptionalEndpoint {
    /// The images that there are.
    Definitions,
    /// How many agents there may be.
    Parallelism,
    /// What became of a request.
    Status,
}

/// The name of a pool in Azure DevOps.
pub(super) fn pool_name(text: &str) -> Result<String, String> {
    match text {
        _ if text.trim().is_empty() => Err("it is empty".into()),
        _ if text.trim() != text => Err("it begins or ends with a blank".into()),
        _ if text.chars().any(char::is_control) => Err("it has a control character".into()),
        _ if text.chars().count() > 64 => Err("it has more than 64 characters".into()),
        _ => Ok(text.to_owned()),
    }
}

/// Reads a file with the shared secret. Its name isn't shown where it can't be read: it might be the secret itself.
pub(super) fn shared_secret(file: &PathBuf) -> Result<SharedSecret, CliError> {
    let bytes = fs::read(file).map_err(|error| {
        let what = "failed to read the file that --shared-secret-file names (a file with the secret, not the secret)";
        CliError::because(what, error)
    })?;
    SharedSecret::new(&bytes).map_err(|error| CliError::because("failed to take the shared secret", error))
}

impl ServiceArgs {
    /// The organisation.
    pub(super) fn organization(&self) -> Result<Organization, CliError> {
        self.uri.parse().map_err(|error| CliError::because("failed to take --uri", error))
    }

    /// Reads everything but the PAT, then that, and makes the client.
    pub(super) fn client(&self, organization: Organization) -> Result<Client, CliError> {
        let authorities = self.ca_file.as_ref().map(|file| fs::read(file).map_err(|e| CliError::file("read", file, e)));
        let authorities = authorities.transpose()?;
        let pat =
            Pat::from_environment_or_terminal().map_err(|error| CliError::because("failed to get a PAT", error))?;
        let timeout = Duration::from_secs(self.timeout_seconds);
        let client = Client::new(organization, pat, authorities.as_deref(), timeout);
        client.map_err(|error| CliError::because("failed to make a client for Azure DevOps", error))
    }

    /// Prints the outcome, as JSON or as this text.
    pub(super) fn print(&self, outcome: &impl Serialize, text: &str) -> Result<Outcome, CliError> {
        if self.output != "json" {
            return print(text);
        }
        let json = serde_json::to_string_pretty(outcome);
        print(&(json.map_err(|error| CliError::because("failed to write JSON", error))? + "\n"))
    }
}

/// Runs `azure register`.
pub(super) fn run(args: Args) -> Result<Outcome, CliError> {
    let Args { service, pool, dns_name, shared_secret_file, target_size, agent_pool, optional } = args;
    let organization = service.organization()?;
    let optional: Vec<Optional> = optional.into_iter().map(Into::into).collect();
    let endpoints = match &agent_pool {
        Some(pool) => Endpoints::of_pool(&dns_name, pool, &optional),
        None => Endpoints::of_default_pool(&dns_name),
    };
    let shared_secret = shared_secret(&shared_secret_file)?;
    // From here on there is a PAT: whatever could be wrong with the arguments has been said.
    let client = service.client(organization)?;
    let wanted = Registration { name: pool, endpoints, shared_secret, target_size };
    let registered = start::ask(async {
        let failed = |error| {
            CliError::because(format!("failed to register {} with {}", wanted.name, client.organization()), error)
        };
        registration::register(&client, &wanted).await.map_err(failed)
    })?;
    service.print(&registered, &text(&registered))
}

fn text(registered: &Registered) -> String {
    let line = |what: &str, Entry { id, name, made }: &Entry| {
        format!("{what} {name}: {}, id {id}", if *made { "made" } else { "was there" })
    };
    let size = match registered.target_size_before {
        Some(before) => format!("target size {}, was {before}", registered.target_size),
        None => format!("target size {}", registered.target_size),
    };
    format!("{}\n{}, {size}\n", line("agent cloud", &registered.agent_cloud), line("pool", &registered.pool))
}

impl From<OptionalEndpoint> for Optional {
    fn from(endpoint: OptionalEndpoint) -> Self {
        match endpoint {
            OptionalEndpoint::Definitions => Self::Definitions,
            OptionalEndpoint::Parallelism => Self::Parallelism,
            OptionalEndpoint::Status => Self::Status,
        }
    }
}
