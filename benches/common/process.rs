use std::{
    env,
    error::Error,
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use rustls::{
    ClientConfig, RootCertStore,
    client::Resumption,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

/// The kernel's unit of CPU time in /proc; USER_HZ is 100 on every platform that Linux runs on today.
const TICK: Duration = Duration::from_millis(10);

/// A process of ours, and what it costs. Ended when dropped.
pub(crate) struct Process(Child);

impl Process {
    /// Starts it, its log in a file, on one core alone where that is asked for.
    pub(crate) fn start(mut command: Command, log: File, core: Option<usize>) -> io::Result<Self> {
        if let Some(core) = core {
            // taskset becomes the program, so that the child is the program itself.
            let mut pinned = Command::new("taskset");
            pinned.args(["-c", &core.to_string()]).arg(command.get_program()).args(command.get_args());
            pinned.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command = pinned;
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().map(Self)
    }

    /// User and system time so far, all threads.
    pub(crate) fn cpu(&self) -> Result<Duration, Box<dyn Error>> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        // The second field is the name, in brackets, and may hold anything; utime and stime are the 14th and 15th.
        let fields = stat.rsplit_once(") ").ok_or("no name in stat")?.1;
        let ticks: Vec<u32> = fields.split(' ').skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
        Ok(TICK * ticks.iter().sum::<u32>())
    }

    /// Its resident memory in KiB.
    pub(crate) fn resident(&self) -> Result<u64, Box<dyn Error>> {
        self.status("VmRSS:")
    }

    /// The most that [`Self::resident`] was since [`Self::forget_peak`], in KiB.
    pub(crate) fn peak(&self) -> Result<u64, Box<dyn Error>> {
        self.status("VmHWM:")
    }

    pub(crate) fn forget_peak(&self) -> io::Result<()> {
        fs::write(format!("/proc/{}/clear_refs", self.0.id()), "5")
    }

    /// How many file descriptors it has open.
    pub(crate) fn descriptors(&self) -> io::Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.0.id()))?.count())
    }

    /// How many threads it has.
    pub(crate) fn threads(&self) -> Result<u64, Box<dyn Error>> {
        self.status("Threads:")
    }

    /// Its end, if that has come.
    pub(crate) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }

    fn status(&self, key: &str) -> Result<u64, Box<dyn Error>> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(key)).ok_or_else(|| format!("no {key}"))?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing is lost if it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Names another podlayer to measure, so that two builds can be compared by one benchmark.
const OTHER: &str = "PODLAYER_BENCH_PROGRAM";

/// The podlayer program that cargo built for this benchmark, or the one that was named instead, in the environment that
/// the image gives it.
pub(crate) fn podlayer() -> Command {
    let mut command = Command::new(env::var_os(OTHER).unwrap_or_else(|| env!("CARGO_BIN_EXE_podlayer").into()));
    let variables = include_str!("../../Dockerfile").lines().filter_map(|line| line.strip_prefix("ENV "));
    command.envs(variables.flat_map(str::split_whitespace).filter_map(|variable| variable.split_once('=')));
    command
}

/// Makes a certificate for localhost in a folder: `tls.crt`, `tls.key`, `ca.crt`.
pub(crate) fn certificate(folder: &Path) -> Result<(), Box<dyn Error>> {
    let made = podlayer().args(["certs", "--out"]).arg(folder).output()?;
    if made.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&made.stderr).into_owned().into()) }
}

/// What a client needs to trust that certificate. Every handshake is a whole one, as the API server's are: Go resumes no
/// session unless it is told to.
pub(crate) fn trust(folder: &Path) -> Result<Arc<ClientConfig>, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.join("ca.crt"))?)?;
    let mut tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.resumption = Resumption::disabled();
    Ok(Arc::new(tls))
}

/// An address of loopback that nobody listens on.
pub(crate) fn free() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
