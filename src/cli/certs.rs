use std::{
    fs,
    io::Write,
    net::IpAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use time::OffsetDateTime;

use super::report::{CliError, Outcome, print};
use crate::certs::dev::Authority;

/// Flags of `certs`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Writes ca.crt, tls.crt and tls.key. For development and tests only: in a cluster podlayer or \
                        cert-manager looks after certificates.\n\nExample:\n  podlayer certs --out certs/dev --name \
                        podlayer.podlayer.svc")]
pub(super) struct Args {
    /// The folder to write to; made if it isn't there.
    #[arg(short, long, value_name = "FOLDER", default_value = "podlayer-certs")]
    out: PathBuf,
    /// A DNS name that the certificate is for; repeatable.
    #[arg(long = "name", value_name = "DNS", default_value = "localhost")]
    names: Vec<String>,
    /// An IP address that the certificate is for; repeatable.
    #[arg(long = "address", value_name = "IP", default_value = "127.0.0.1")]
    addresses: Vec<IpAddr>,
}

/// Runs `certs`.
pub(super) fn run(args: &Args) -> Result<Outcome, CliError> {
    let now = OffsetDateTime::now_utc();
    let fail = |error| CliError::because("failed to make certificates", error);
    let authority = Authority::new(now).map_err(fail)?;
    let leaf = authority.leaf(&args.names, &args.addresses, now).map_err(fail)?;
    fs::create_dir_all(&args.out).map_err(|error| CliError::file("make", &args.out, error))?;
    let mut written = String::new();
    for (name, text, mode) in [
        ("ca.crt", authority.certificate(), 0o644),
        ("tls.crt", &leaf.certificate, 0o644),
        ("tls.key", &leaf.key, 0o600),
    ] {
        let path = args.out.join(name);
        write(&path, text, mode).map_err(|error| CliError::file("write", &path, error))?;
        written.push_str(&format!("{}\n", path.display()));
    }
    print(&written)
}

/// Writes a file that nobody could read meanwhile who may not afterwards.
pub(super) fn write(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())
}
