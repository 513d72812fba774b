//! What the process takes from the machine, as the kernel counts it. How much memory it is: `cargo bench --bench endurance`.

use tokio::task::JoinSet;

use crate::program::Program;

/// Four that tasks run on, six for what blocks, large reviews among it, and the one that waits for all of them.
const MOST_THREADS: usize = 4 + 6 + 1;

/// A huge page is resident as a whole as soon as one byte of it is used, and the allocator would ask for nothing else.
#[tokio::test]
async fn it_asks_for_no_huge_pages_and_has_few_threads_however_many_large_reviews_there_are() {
    let program = Program::start(&[("base.yaml", "serviceAccountName: ci\n")]).await;
    let pod = format!(
        r#"{{"metadata": {{"labels": {{"podlayer.dev/enabled": "true"}}, "annotations": {{"x": "{}"}}}}, "spec": {{"containers": [{{"name": "a", "image": "b"}}]}}}}"#,
        "x".repeat(200 << 10)
    );
    let review = format!(
        r#"{{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {{"uid": "u", "kind": {{"group": "", "version": "v1", "kind": "Pod"}}, "namespace": "ci", "operation": "CREATE", "object": {pod}, "oldObject": null, "dryRun": false}}}}"#
    );
    let mut callers = JoinSet::new();
    for _ in 0..24 {
        let (mut client, review) = (program.connect().await, review.clone());
        callers.spawn(async move {
            for _ in 0..4 {
                assert_eq!(client.post("/mutate", review.as_bytes()).await.status, 200);
            }
        });
    }
    callers.join_all().await;
    let status = program.of_kernel("status");
    let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap();
    assert!(threads.trim().parse::<usize>().unwrap() <= MOST_THREADS, "{threads}");
    let mappings = program.of_kernel("smaps");
    let flags = || mappings.lines().filter_map(|line| line.strip_prefix("VmFlags:"));
    assert!(flags().count() > 0, "{mappings}");
    let huge = flags().filter(|flags| flags.split_whitespace().any(|flag| flag == "hg"));
    assert_eq!(huge.count(), 0, "{mappings}");
}
