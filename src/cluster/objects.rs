//! What is asked of objects and of answers alike, whatever their kind.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    api::{DeleteParams, Preconditions},
    core::Status,
};

/// Whether one of an object's owner references is to this uid. Nothing is owned by what has none.
pub fn is_owned_by(object: &ObjectMeta, uid: Option<&str>) -> bool {
    let owners = object.owner_references.as_deref().unwrap_or_default();
    uid.is_some_and(|uid| owners.iter().any(|owner| owner.uid == uid))
}

/// Deletes an object only if it is still the one with this uid, not another of its name: else the API server answers 409.
pub fn if_still(uid: Option<String>) -> DeleteParams {
    let preconditions = Preconditions { uid, resource_version: None };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}

/// That something is gone already, or was made anew, is as good as having deleted it.
///
/// # Errors
/// Those of the API server but 404 and 409.
pub fn ignore_gone<T>(deleted: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match deleted {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        deleted => deleted.map(drop),
    }
}

/// Whether a ResourceQuota refused something. The API server says so in words only.
pub fn is_over_quota(status: &Status) -> bool {
    status.code == 403 && status.message.contains("exceeded quota")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_owned_by_whom_it_refers_to_and_never_by_what_has_no_uid() {
        let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid});
        let object: ObjectMeta = serde_json::from_value(json!({"ownerReferences": [owner("a"), owner("b")]})).unwrap();
        assert!(is_owned_by(&object, Some("b")) && !is_owned_by(&object, Some("c")) && !is_owned_by(&object, None));
        assert!(!is_owned_by(&ObjectMeta::default(), Some("a")));
    }
}
