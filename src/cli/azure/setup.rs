use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::ValueEnum;

use super::register::shared_secret;
use crate::{
    azure::{
        DnsName,
        registration::PoolPath,
        setup::{self, Certificate, Dns, Exposure, Image, Options, Plan, PoolFile, Target, Tools},
    },
    certs::serving::Pair,
    cli::{
        files,
        report::{CliError, Outcome, note, print},
        start,
    },
    cluster, names,
};

/// Flags of `azure setup`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Writes the shared secret, installs the charts podlayer and podlayer-ingress with helm, and waits for address \
                        and certificate. Run again, it finds what it did. It installs no ingress controller and no \
                        cert-manager.\n\nThe short options are those of k8s-poolprovider's setup.sh; -s takes a file here, \
                        for a command line can be seen by other users of the machine.\n\nExamples:\n  podlayer azure setup \
                        -s secret.txt -d agents.example.com -u true --image registry.example.com/podlayer --dry-run\n  \
                        podlayer azure setup -s secret.txt -d agents.westeurope.cloudapp.azure.com -k tls.key -c tls.crt \
                        --dns az\n\nExit codes: 0 done, 2 usage or failure."
)]
pub(super) struct Args {
    /// File with the shared secret; one newline at its end is no part of it.
    #[arg(short = 's', long, value_name = "FILE")]
    shared_secret_file: PathBuf,
    /// The public name by which Azure DevOps will call.
    #[arg(short = 'd', long, value_name = "NAME")]
    dns_name: DnsName,
    /// Whether the certificate comes from Let's Encrypt, by cert-manager.
    #[arg(short = 'u', long, value_name = "BOOL", default_value_t = false, action = clap::ArgAction::Set)]
    lets_encrypt: bool,
    /// The certificate's key, as PEM.
    #[arg(short = 'k', long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The certificate and its chain, as PEM.
    #[arg(short = 'c', long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Secret with the certificate, in podlayer's own namespace.
    #[arg(long, value_name = "NAME", conflicts_with = "tls_key")]
    tls_secret: Option<String>,
    /// Whom Let's Encrypt writes to if something is wrong.
    #[arg(long, value_name = "ADDRESS")]
    lets_encrypt_email: Option<String>,
    /// Certificates of Let's Encrypt that nobody trusts, for a try.
    #[arg(long)]
    lets_encrypt_staging: bool,
    /// The pool's namespace, where agents run.
    #[arg(short, long, value_name = "NAME", default_value = names::AZURE_NAMESPACE)]
    namespace: String,
    /// The AgentPool that /acquire and /release are for.
    #[arg(long, value_name = "NAME", default_value = "azure")]
    pool: String,
    /// A manifest of it, which is applied; else it is only looked for.
    #[arg(long, value_name = "FILE")]
    pool_file: Option<PathBuf>,
    /// The Secret that the shared secret is written to, in the pool's namespace.
    #[arg(long, value_name = "NAME", default_value = names::AZURE_SECRET)]
    secret_name: String,
    /// Write over a Secret that holds another shared secret.
    #[arg(long)]
    replace_secret: bool,
    /// podlayer's own namespace.
    #[arg(long, value_name = "NAME", default_value = names::NAMESPACE, env = "PODLAYER_NAMESPACE")]
    own_namespace: String,
    /// podlayer's image, REPOSITORY, REPOSITORY:TAG or REPOSITORY@DIGEST; left out, that of the release that is there.
    #[arg(long, value_name = "IMAGE")]
    image: Option<Image>,
    /// Folder, or address for helm, that both charts are below.
    #[arg(long, value_name = "PATH", default_value = "charts")]
    charts: String,
    /// Class of the Ingress; else the cluster's default one.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["gateway_class", "gateway"])]
    ingress_class: Option<String>,
    /// By a Gateway of this class in the place of an Ingress.
    #[arg(long, value_name = "NAME", conflicts_with = "gateway")]
    gateway_class: Option<String>,
    /// By a Gateway that is there; it has the certificate.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    gateway: Option<PoolPath>,
    /// Who binds the name to the address.
    #[arg(long, value_enum, default_value = "print")]
    dns: DnsBy,
    /// Resource group of the public address.
    #[arg(long, value_name = "NAME")]
    resource_group: Option<String>,
    /// Where the values of both charts are written to; else they are gone afterwards.
    #[arg(long, value_name = "FOLDER")]
    values_dir: Option<PathBuf>,
    /// Print everything that would be done, and do nothing: nobody is called.
    #[arg(long)]
    dry_run: bool,
    /// How long helm, the address and the certificate may each take.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout_seconds: u64,
    /// The cluster; else KUBECONFIG.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context; else its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum DnsBy {
    /// The command line of Azure, for names LABEL.REGION.cloudapp.azure.com.
    Az,
    /// You: what to do is printed.
    Print,
}

/// Runs `azure setup`.
pub(super) fn run(args: Args) -> Result<Outcome, CliError> {
    let (dry_run, values_dir) = (args.dry_run, args.values_dir.clone());
    let options = options(args)?;
    options.check().map_err(|error| CliError::because("failed to plan the set-up", error))?;
    let plan = Plan::new(&options);
    let with_az = matches!(options.dns, Dns::Az { .. });
    if dry_run {
        if let Some(folder) = &values_dir {
            write_values(&plan, folder)?;
        }
        return print(&format!("{plan}\n{}", Tools::told(with_az)));
    }
    let tools = Tools::find(with_az).map_err(|error| CliError::because("failed to find what is needed", error))?;
    let temporary = tempfile::tempdir().map_err(|error| CliError::because("failed to make a folder", error))?;
    let folder = values_dir.as_deref().unwrap_or_else(|| temporary.path());
    write_values(&plan, folder)?;
    start::ask(async {
        let client = cluster::client(options.target.kubeconfig.as_deref(), options.target.context.as_deref()).await;
        let client = client.map_err(|error| CliError::because("failed to reach the cluster", error))?;
        let mut say = |line: &str| _ = print(&format!("{line}\n"));
        let done = setup::run(&plan, &client, &tools, folder, &mut say).await;
        done.map_err(|error| CliError::because("failed to set up", error))
    })?;
    Ok(Outcome::Clean)
}

fn write_values(plan: &Plan<'_>, folder: &Path) -> Result<(), CliError> {
    fs::create_dir_all(folder).map_err(|error| CliError::file("make", folder, error))?;
    for release in plan.releases() {
        let file = folder.join(release.values_file());
        fs::write(&file, release.values_yaml()).map_err(|error| CliError::file("write", &file, error))?;
    }
    Ok(())
}

/// Reads the files, and makes of the flags what they come to.
fn options(args: Args) -> Result<Options, CliError> {
    let certificate = certificate(&args)?;
    if !args.lets_encrypt && (args.lets_encrypt_staging || args.lets_encrypt_email.is_some()) {
        note("--lets-encrypt-staging and --lets-encrypt-email do nothing without -u true");
    }
    if args.dns == DnsBy::Print && args.resource_group.is_some() {
        note("--resource-group does nothing without --dns az");
    }
    let exposure = match (args.gateway_class, args.gateway) {
        (Some(class), _) => Exposure::Gateway(class),
        (None, Some(gateway)) => Exposure::Existing(gateway),
        (None, None) => Exposure::Ingress(args.ingress_class),
    };
    let dns = match args.dns {
        DnsBy::Az => Dns::Az { resource_group: args.resource_group },
        DnsBy::Print => Dns::Print,
    };
    let pool = format!("{}/{}", args.namespace, args.pool).parse();
    Ok(Options {
        shared_secret: shared_secret(&args.shared_secret_file)?,
        secret_name: args.secret_name,
        replace_secret: args.replace_secret,
        pool: pool.map_err(|error| CliError::because("failed to read --namespace and --pool", error))?,
        pool_file: args.pool_file.map(pool_file).transpose()?,
        own_namespace: args.own_namespace,
        image: args.image,
        charts: args.charts,
        dns_name: args.dns_name,
        exposure,
        certificate,
        dns,
        timeout: Duration::from_secs(args.timeout_seconds),
        target: Target { kubeconfig: args.kubeconfig, context: args.context },
    })
}

fn certificate(args: &Args) -> Result<Certificate, CliError> {
    let wanted = [args.lets_encrypt, args.tls_cert.is_some(), args.tls_secret.is_some(), args.gateway.is_some()];
    if wanted.iter().filter(|&&is_wanted| is_wanted).count() != 1 {
        return Err(CliError::new(
            "one certificate is needed: -u true for Let's Encrypt, -c and -k for files, --tls-secret for a Secret that is \
             there, or --gateway for a Gateway that has one",
        ));
    }
    Ok(match (&args.tls_cert, &args.tls_key, &args.tls_secret) {
        (Some(certificate), Some(key), _) => {
            let read = |file: &PathBuf| fs::read(file).map_err(|error| CliError::file("read", file, error));
            let pair = Pair::from_pem(&read(certificate)?, &read(key)?);
            pair.map_err(|error| CliError::because("failed to take the certificate of -c with the key of -k", error))?;
            Certificate::Files { certificate: certificate.clone(), key: key.clone() }
        }
        (_, _, Some(name)) => Certificate::Secret(name.clone()),
        _ if args.lets_encrypt => {
            Certificate::LetsEncrypt { email: args.lets_encrypt_email.clone(), staging: args.lets_encrypt_staging }
        }
        _ => Certificate::Gateway,
    })
}

fn pool_file(path: PathBuf) -> Result<PoolFile, CliError> {
    let (text, shown) = files::text_of(&path)?;
    let manifest = serde_yaml::from_str(&text);
    let manifest = manifest.map_err(|error| CliError::because(format!("failed to read {shown}"), error))?;
    Ok(PoolFile { path, manifest })
}
