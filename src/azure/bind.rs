//! Whether a call that is signed well was meant for this pool. The signature covers neither the path nor the time, so a
//! call could be sent again to another place.

use sha2::{Digest, Sha256};

use super::wire::AgentRef;
use crate::pool::api::AgentPool;

/// Why a call isn't for this pool.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum Misdirected {
    #[error("the call is of another account than this pool's spec.azure.accountId")]
    Account,
    #[error("the call is for another pool than this pool's spec.azure.agentPool")]
    AgentPool,
    #[error("the agent was made for another account or pool")]
    Agent,
    #[error("the agent is of another pool of this cluster")]
    Pool,
    #[error(
        "two pools of this namespace take the same Secret, so that a call for one would be good for the other: give each its own, or each its own spec.azure.agentPool"
    )]
    SharedSecret,
}

/// What the spec asks of a call.
pub(super) fn check(pool: &AgentPool, agent: &AgentRef) -> Result<(), Misdirected> {
    let Some(azure) = &pool.spec.azure else { return Ok(()) };
    let fits = |wanted: &Option<String>, given: &Option<String>| {
        wanted.as_ref().is_none_or(|wanted| given.as_ref().is_some_and(|given| wanted.eq_ignore_ascii_case(given)))
    };
    if !fits(&azure.account_id, &agent.account_id) {
        return Err(Misdirected::Account);
    }
    fits(&azure.agent_pool, &agent.agent_pool).then_some(()).ok_or(Misdirected::AgentPool)
}

/// Whether other pools could take this one's calls for theirs.
pub(super) fn check_secret<'p>(
    pool: &AgentPool,
    others: impl Iterator<Item = &'p AgentPool>,
) -> Result<(), Misdirected> {
    let Some(azure) = &pool.spec.azure else { return Ok(()) };
    let told_apart = |other: &AgentPool| {
        let Some(theirs) = &other.spec.azure else { return true };
        let same_pool =
            pool.metadata.name == other.metadata.name || pool.metadata.namespace != other.metadata.namespace;
        same_pool
            || azure.secret_name != theirs.secret_name
            || matches!((&azure.agent_pool, &theirs.agent_pool), (Some(one), Some(other)) if !one.eq_ignore_ascii_case(other))
    };
    others.into_iter().all(told_apart).then_some(()).ok_or(Misdirected::SharedSecret)
}

/// Whom an agent was made for, as its pod is marked: account and pool, each a hash, for these are names of people's
/// organisations; `-` for what the call didn't say.
pub(super) fn mark(agent: &AgentRef) -> String {
    let part = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), hash);
    format!("{}.{}", part(&agent.account_id), part(&agent.agent_pool))
}

fn hash(text: &str) -> String {
    let sum = Sha256::digest(text.to_ascii_lowercase());
    sum.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Whether an agent's mark is that of a caller. Of account and pool counts what both sides say.
pub(super) fn check_mark(mark_of_pod: Option<&str>, agent: &AgentRef) -> Result<(), Misdirected> {
    let Some((account, agent_pool)) = mark_of_pod.and_then(|mark| mark.split_once('.')) else { return Ok(()) };
    let fits = |marked: &str, given: &Option<String>| {
        marked == "-" || given.as_deref().is_none_or(|given| marked == hash(given))
    };
    let same = fits(account, &agent.account_id) && fits(agent_pool, &agent.agent_pool);
    same.then_some(()).ok_or(Misdirected::Agent)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pool(name: &str, azure: Value) -> AgentPool {
        serde_json::from_value(json!({"apiVersion": "podlayer.dev/v1alpha1", "kind": "AgentPool",
            "metadata": {"name": name, "namespace": "ci", "uid": name},
            "spec": {"mode": "Agents", "max": 1, "azure": azure}}))
        .unwrap()
    }

    fn agent(account: Option<&str>, agent_pool: Option<&str>) -> AgentRef {
        AgentRef { agent_id: "1".into(), account_id: account.map(Into::into), agent_pool: agent_pool.map(Into::into) }
    }

    #[test]
    fn a_call_is_for_the_account_and_pool_that_the_spec_names() {
        let bound = pool("p", json!({"secretName": "s", "accountId": "ACC", "agentPool": "k8s"}));
        assert_eq!(check(&bound, &agent(Some("acc"), Some("K8s"))), Ok(()));
        assert_eq!(check(&bound, &agent(Some("x"), Some("k8s"))), Err(Misdirected::Account));
        assert_eq!(check(&bound, &agent(None, Some("k8s"))), Err(Misdirected::Account));
        assert_eq!(check(&bound, &agent(Some("acc"), None)), Err(Misdirected::AgentPool));
        assert_eq!(check(&pool("p", json!({"secretName": "s"})), &agent(None, None)), Ok(()));
    }

    #[test]
    fn two_pools_with_one_secret_are_refused_unless_calls_tell_them_apart() {
        let one = pool("a", json!({"secretName": "s"}));
        let other = pool("b", json!({"secretName": "s"}));
        let named = |name: &str| pool(name, json!({"secretName": "s", "agentPool": name}));
        let all = [one.clone(), other];
        assert_eq!(check_secret(&one, all.iter()), Err(Misdirected::SharedSecret));
        assert_eq!(check_secret(&one, [one.clone()].iter()), Ok(()));
        assert_eq!(check_secret(&named("a"), [named("a"), named("b")].iter()), Ok(()));
    }

    #[test]
    fn an_agent_is_released_by_whom_it_was_made_for() {
        let of = mark(&agent(Some("acc"), Some("k8s")));
        assert_eq!(check_mark(Some(&of), &agent(Some("ACC"), Some("k8s"))), Ok(()));
        assert_eq!(check_mark(Some(&of), &agent(Some("other"), Some("k8s"))), Err(Misdirected::Agent));
        assert_eq!(check_mark(Some(&of), &agent(Some("other"), None)), Err(Misdirected::Agent));
        assert_eq!(check_mark(Some(&of), &agent(None, Some("other"))), Err(Misdirected::Agent));
        assert_eq!(check_mark(Some(&of), &agent(None, None)), Ok(()));
        assert_eq!(check_mark(Some(&mark(&agent(Some("acc"), None))), &agent(Some("acc"), Some("any"))), Ok(()));
        assert_eq!(check_mark(None, &agent(Some("other"), Some("k8s"))), Ok(()));
    }
}
