use std::{fmt, path::PathBuf, time::Duration};

use serde_json::Value;

use super::{
    dns,
    options::{Certificate, Dns, Exposure, Options, Target},
    tools, values,
};
use crate::names;

/// What will be done, in this order.
pub struct Plan<'o> {
    options: &'o Options,
    /// The steps.
    pub steps: Vec<Step>,
}

/// One thing to do. Each can be done again.
#[derive(Debug)]
pub enum Step {
    /// Look whether the cluster has what is needed.
    Look,
    /// Make the pool's namespace, if it isn't there.
    Namespace,
    /// Write the Secret with the shared secret.
    Secret,
    /// Install or upgrade a chart.
    Chart(Release),
    /// Apply the AgentPool, or look whether it is there.
    Pool,
    /// Wait until the Ingress or Gateway has an address.
    Address,
    /// Bind the name to it.
    Dns,
    /// Wait for the certificate.
    Certificate,
}

/// A release of helm.
#[derive(Debug)]
pub struct Release {
    /// Its name, and the chart's.
    pub name: &'static str,
    chart: String,
    namespace: String,
    /// Its values, but for the files.
    pub values: Value,
    /// Values that are files.
    files: Vec<(&'static str, PathBuf)>,
    /// Whether others install it too: the values that it has are kept, and these added.
    pub(super) shared: bool,
    timeout: Duration,
    target: Target,
}

/// What Ingress or Gateway the address is of.
pub(super) struct Entrance {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Where its addresses are.
    pub(super) addresses: &'static str,
}

impl<'o> Plan<'o> {
    /// What these options come to.
    pub fn new(options: &'o Options) -> Self {
        let release = |name: &'static str, values: Value| Release {
            name,
            chart: format!("{}/{name}", options.charts.trim_end_matches('/')),
            namespace: options.own_namespace.clone(),
            values,
            files: Vec::new(),
            shared: false,
            timeout: options.timeout,
            target: options.target.clone(),
        };
        let podlayer = Release { shared: true, ..release("podlayer", values::of_podlayer(options)) };
        let mut ingress = release("podlayer-ingress", values::of_ingress(options));
        if let Certificate::Files { certificate, key } = &options.certificate {
            ingress.files = vec![("tls.certificate", certificate.clone()), ("tls.key", key.clone())];
        }
        let mut steps = vec![Step::Look, Step::Namespace, Step::Secret, Step::Chart(podlayer), Step::Pool];
        steps.extend([Step::Chart(ingress), Step::Address, Step::Dns]);
        if matches!(options.certificate, Certificate::LetsEncrypt { .. }) {
            steps.push(Step::Certificate);
        }
        Self { options, steps }
    }

    /// What it was made of.
    pub fn options(&self) -> &'o Options {
        self.options
    }

    /// Its releases.
    pub fn releases(&self) -> impl Iterator<Item = &Release> {
        self.steps.iter().filter_map(|step| match step {
            Step::Chart(release) => Some(release),
            _ => None,
        })
    }

    /// What is left for a person to do: a command.
    pub fn next(&self) -> String {
        let options = self.options;
        format!(
            "register it: podlayer azure register --uri https://dev.azure.com/ORGANISATION --pool {} --dns-name {} \
             --shared-secret-file FILE --target-size COUNT",
            options.pool.name, options.dns_name
        )
    }

    /// What the cluster must have, in words.
    pub(super) fn needs(&self) -> Vec<String> {
        let mut needs = vec!["Kubernetes 1.30 or later".to_owned()];
        needs.push(match &self.options.exposure {
            Exposure::Ingress(Some(class)) => format!("the IngressClass {class}"),
            Exposure::Ingress(None) => "an IngressClass that is the default one".to_owned(),
            Exposure::Gateway(class) => format!("Gateway API and the GatewayClass {class}"),
            Exposure::Existing(gateway) => format!("Gateway API and the Gateway {gateway}"),
        });
        match &self.options.certificate {
            Certificate::LetsEncrypt { .. } => needs.push("cert-manager (cert-manager.io/v1)".to_owned()),
            Certificate::Secret(name) => {
                needs.push(format!("the Secret {}/{name} of type kubernetes.io/tls", self.options.own_namespace));
            }
            Certificate::Files { .. } | Certificate::Gateway => {}
        }
        needs
    }

    /// What has the address.
    pub(super) fn entrance(&self) -> Entrance {
        let gateway = |namespace: &str, name: &str| Entrance {
            api_version: "gateway.networking.k8s.io/v1",
            kind: "Gateway",
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            addresses: "/status/addresses",
        };
        match &self.options.exposure {
            Exposure::Ingress(_) => Entrance {
                api_version: "networking.k8s.io/v1",
                kind: "Ingress",
                namespace: self.options.own_namespace.clone(),
                name: names::AZURE_INGRESS.to_owned(),
                addresses: "/status/loadBalancer/ingress",
            },
            Exposure::Gateway(_) => gateway(&self.options.own_namespace, names::AZURE_INGRESS),
            Exposure::Existing(existing) => gateway(&existing.namespace, &existing.name),
        }
    }

    /// One step in words.
    fn told(&self, step: &Step) -> String {
        let options = self.options;
        let pool = &options.pool;
        match step {
            Step::Look => format!("look whether the cluster has: {}", self.needs().join("; ")),
            Step::Namespace => format!("make the namespace {}, if it isn't there", pool.namespace),
            Step::Secret => {
                let other = if options.replace_secret { "write over it" } else { "stop" };
                format!(
                    "write the Secret {}/{}, key {} (the secret isn't shown); if it holds another one: {other}",
                    pool.namespace,
                    options.secret_name,
                    names::AZURE_SECRET_KEY
                )
            }
            Step::Chart(release) => {
                let kept = "\n   namespaces that the release serves already are added to those below";
                let kept = if release.shared { kept } else { "" };
                format!("run: {}{kept}", tools::shown("helm", &release.arguments(&release.values_file())))
            }
            Step::Pool => match &options.pool_file {
                Some(file) => format!("apply the AgentPool {pool} of {}", file.path.display()),
                None => format!("look whether there is an AgentPool {pool}; if not, say so"),
            },
            Step::Address => {
                let Entrance { kind, namespace, name, .. } = self.entrance();
                format!("wait up to {} s for the address of the {kind} {namespace}/{name}", options.timeout.as_secs())
            }
            Step::Dns => match &options.dns {
                Dns::Print => format!("say which record {} needs", options.dns_name),
                Dns::Az { .. } => format!(
                    "run: {}\n   then: {}",
                    tools::shown("az", &dns::find(options, "ADDRESS")),
                    tools::shown("az", &dns::bind("ID", &options.dns_name))
                ),
            },
            Step::Certificate => format!(
                "wait up to {} s for the Certificate {}/{}",
                options.timeout.as_secs(),
                options.own_namespace,
                names::AZURE_INGRESS
            ),
        }
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            writeln!(f, "{}. {}", at + 1, self.told(step))?;
            if let Step::Chart(release) = step {
                writeln!(f, "   with {}:", release.values_file())?;
                release.values_yaml().lines().try_for_each(|line| writeln!(f, "     {line}"))?;
            }
        }
        writeln!(f, "Then {}", self.next())
    }
}

impl Release {
    /// The name of the file with its values.
    pub fn values_file(&self) -> String {
        format!("{}.values.yaml", self.name)
    }

    /// Its values, as a file has them.
    pub fn values_yaml(&self) -> String {
        yaml(&self.values)
    }

    /// Arguments of helm that list the release, if it is there.
    pub(super) fn list(&self) -> Vec<String> {
        let filter = format!("^{}$", self.name);
        self.at(&["list", "--filter", &filter, "--output", "json"])
    }

    /// Arguments of helm that print the values that it was given.
    pub(super) fn get_values(&self) -> Vec<String> {
        self.at(&["get", "values", self.name, "--output", "json"])
    }

    fn at(&self, words: &[&str]) -> Vec<String> {
        let mut arguments: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        arguments.extend(["--namespace".to_owned(), self.namespace.clone()]);
        arguments.extend(self.target_flags());
        arguments
    }

    fn target_flags(&self) -> Vec<String> {
        let kubeconfig =
            self.target.kubeconfig.as_ref().map(|file| ["--kubeconfig".to_owned(), file.display().to_string()]);
        let context = self.target.context.as_ref().map(|name| ["--kube-context".to_owned(), name.clone()]);
        kubeconfig.into_iter().chain(context).flatten().collect()
    }

    /// Arguments of helm.
    pub(super) fn arguments(&self, values_file: &str) -> Vec<String> {
        let mut arguments: Vec<String> = ["upgrade", self.name, &self.chart, "--install"].map(str::to_owned).into();
        let mut flag = |name: &str, value: &str| arguments.extend([name.to_owned(), value.to_owned()]);
        flag("--namespace", &self.namespace);
        flag("--values", values_file);
        for (value, file) in &self.files {
            flag("--set-file", &format!("{value}={}", file.display()));
        }
        flag("--timeout", &format!("{}s", self.timeout.as_secs()));
        arguments.extend(self.target_flags());
        arguments.push("--create-namespace".into());
        if self.shared {
            arguments.push("--reset-then-reuse-values".into());
            // Not for the ingress: helm would wait for its certificate, which comes only once the name leads there.
            arguments.push("--wait".into());
        }
        arguments
    }
}

/// Values as a file has them.
pub(super) fn yaml(values: &Value) -> String {
    // JSON is YAML, too, should the writer ever fail.
    serde_yaml::to_string(values).unwrap_or_else(|_| values.to_string())
}
