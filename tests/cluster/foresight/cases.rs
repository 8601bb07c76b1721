//! Random cases: a tree of cohorts with queues, work that runs in them, work that comes, and a quota that is edited.

use serde_json::{Value, json};

const KUEUE: &str = "kueue.x-k8s.io/v1beta2";
const GPU: &str = "nvidia.com/gpu";
pub const FLAVOR: &str = "foresight";
pub const CLASSES: [(&str, i64); 3] = [("foresight-low", 10), ("foresight-mid", 100), ("foresight-high", 1000)];

/// SplitMix64: the same cases on every machine.
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of `from..=to`.
    pub fn among(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from + 1)
    }

    fn percent(&mut self, of_hundred: u64) -> bool {
        self.among(1, 100) <= of_hundred
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.among(0, all.len() as u64 - 1)).unwrap()]
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Quota {
    pub nominal: u64,
    pub borrow: Option<u64>,
    pub lend: Option<u64>,
}

#[derive(Debug, Clone)]
pub struct Node {
    pub name: String,
    /// The cohort above.
    pub above: Option<String>,
    pub quota: Quota,
    pub preemption: Value,
    pub weight: u64,
}

#[derive(Debug, Clone)]
pub struct Work {
    pub name: String,
    pub queue: String,
    pub gpus: u64,
    pub class: Option<&'static str>,
}

#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub cohorts: Vec<Node>,
    pub queues: Vec<Node>,
    /// In the order in which it is submitted.
    pub running: Vec<Work>,
    /// All in one queue, let in together.
    pub coming: Vec<Work>,
    /// What is written in the end: a queue, and its new nominal quota and borrowing limit.
    pub edit: (String, Quota),
}

pub fn random(name: &str, dice: &mut Dice, fair: bool) -> Case {
    let cohorts = cohorts(name, dice);
    let count = dice.among(2, 4);
    let names = ["a", "b", "c", "d"];
    let queues = (0..usize::try_from(count).unwrap()).map(|at| {
        let above = cohorts[usize::try_from(dice.among(0, cohorts.len() as u64 - 1)).unwrap()].name.clone();
        let nominal = dice.among(0, 8);
        let quota = limits(dice, nominal, true);
        let weight = if fair { dice.pick(&[1, 1, 2, 4, 0]) } else { 1 };
        Node {
            name: format!("{name}-{}", names[at]),
            above: Some(above),
            quota,
            preemption: policies(dice, fair),
            weight,
        }
    });
    let queues: Vec<Node> = queues.collect();
    let total: u64 = queues.iter().chain(&cohorts).map(|node| node.quota.nominal).sum();
    let mut running = Vec::new();
    let (mut used, most) = (0, total * dice.among(100, 140) / 100);
    while used < most && running.len() < 10 {
        let work = work(dice, &queues, &format!("r{}", running.len()), 4);
        used += work.gpus;
        running.push(work);
    }
    let coming = coming(dice, &queues);
    let other = usize::try_from(dice.among(0, count - 1)).unwrap();
    let own = queues.iter().find(|node| node.name == coming[0].queue).filter(|_| dice.percent(70));
    let edited = own.unwrap_or(&queues[other]);
    let nominal = edited.quota.nominal + dice.among(1, 5);
    let edit =
        (edited.name.clone(), Quota { nominal, borrow: edited.quota.borrow.map(|limit| limit + 2), ..edited.quota });
    Case { name: name.to_owned(), cohorts, queues, running, coming, edit }
}

/// Mostly something that has a right to room: work of a higher class, for a queue that has quota of its own.
fn coming(dice: &mut Dice, queues: &[Node]) -> Vec<Work> {
    let owners: Vec<Node> = queues.iter().filter(|node| node.quota.nominal > 1).cloned().collect();
    let queues = if owners.is_empty() || dice.percent(15) { queues } else { &owners };
    let mut all = Vec::new();
    let count = if dice.percent(20) { 2 } else { 1 };
    for at in 0..count {
        let mut one = work(dice, queues, &format!("n{at}"), 4);
        if dice.percent(60) {
            one.class = Some(dice.pick(&["foresight-mid", "foresight-high"]));
        }
        if let Some(Work { queue, .. }) = all.first() {
            one.queue = String::clone(queue);
        }
        all.push(one);
    }
    all
}

/// A root alone, or with one or two cohorts below it, the second perhaps below the first.
fn cohorts(name: &str, dice: &mut Dice) -> Vec<Node> {
    let node = |part: &str, above: Option<String>, quota: Quota, weight: u64| Node {
        name: format!("{name}-{part}"),
        above,
        quota,
        preemption: Value::Null,
        weight,
    };
    let spare = if dice.percent(40) { dice.among(1, 4) } else { 0 };
    let mut all = vec![node("top", None, Quota { nominal: spare, ..Quota::default() }, 1)];
    for part in ["left", "right"].into_iter().take(usize::try_from(dice.pick(&[0, 0, 1, 2])).unwrap()) {
        let above = if dice.percent(30) { all.last() } else { all.first() };
        let above = above.map(|above: &Node| above.name.clone());
        let own = if dice.percent(30) { dice.among(1, 4) } else { 0 };
        let quota = limits(dice, own, false);
        let weight = dice.pick(&[1, 1, 2]);
        all.push(node(part, above, quota, weight));
    }
    all
}

fn limits(dice: &mut Dice, nominal: u64, queue: bool) -> Quota {
    let often = if queue { 45 } else { 30 };
    let borrow = dice.percent(often).then(|| dice.among(0, 8));
    let lend = dice.percent(if queue { 35 } else { 30 }).then(|| dice.among(0, nominal));
    Quota { nominal, borrow, lend }
}

fn policies(dice: &mut Dice, fair: bool) -> Value {
    let mut policies = json!({
        "withinClusterQueue": dice.pick(&["Never", "LowerPriority", "LowerPriority", "LowerPriority", "LowerOrNewerEqualPriority"]),
        "reclaimWithinCohort": dice.pick(&["Never", "LowerPriority", "Any", "Any", "Any"]),
    });
    if !fair && dice.percent(25) && policies["reclaimWithinCohort"] != "Never" {
        policies["borrowWithinCohort"] = json!({"policy": "LowerPriority"});
        if dice.percent(50) {
            policies["borrowWithinCohort"]["maxPriorityThreshold"] = json!(100);
        }
    }
    policies
}

fn work(dice: &mut Dice, queues: &[Node], name: &str, most: u64) -> Work {
    let queue = &queues[usize::try_from(dice.among(0, queues.len() as u64 - 1)).unwrap()];
    let class = dice.pick(&[None, Some("foresight-low"), Some("foresight-mid"), Some("foresight-high")]);
    Work { name: name.to_owned(), queue: queue.name.clone(), gpus: dice.among(1, most), class }
}

impl Case {
    pub fn is_nested(&self) -> bool {
        self.cohorts.len() > 1
    }

    pub fn has_limits(&self) -> bool {
        self.queues.iter().chain(&self.cohorts).any(|node| node.quota.borrow.or(node.quota.lend).is_some())
    }

    /// Everything as it is while work is let in: room for all, and nobody preempts.
    pub fn objects(&self) -> Vec<Value> {
        let name = &self.name;
        let mut all = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})];
        all.extend(self.cohorts.iter().map(cohort));
        let wide = Quota { nominal: 100, ..Quota::default() };
        all.extend(self.queues.iter().map(|node| queue(&Node { quota: wide, preemption: json!({}), ..node.clone() })));
        all
    }

    pub fn local_queues(&self) -> Vec<Value> {
        let local = |name: String, queue: &str, stop: &str| {
            json!({
                "apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": name, "namespace": self.name},
                "spec": {"clusterQueue": queue, "stopPolicy": stop},
            })
        };
        let mut all: Vec<Value> = self.queues.iter().map(|node| local(node.name.clone(), &node.name, "None")).collect();
        all.push(local("late".to_owned(), &self.coming[0].queue, "Hold"));
        all
    }

    pub fn job(&self, work: &Work, local_queue: &str) -> Value {
        let mut labels = json!({"kueue.x-k8s.io/queue-name": local_queue});
        if let Some(class) = work.class {
            labels["kueue.x-k8s.io/priority-class"] = class.into();
        }
        let asked = json!({GPU: work.gpus.to_string()});
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": work.name, "namespace": self.name, "labels": labels},
            "spec": {"suspend": true, "template": {"spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": "train", "resources": {"requests": asked, "limits": asked}}],
            }}},
        })
    }

    /// The queues with the quotas and policies of the case.
    pub fn narrowed(&self) -> Vec<Value> {
        self.queues.iter().map(queue).collect()
    }

    /// The queue of the edit, as it is written.
    pub fn edited(&self) -> Value {
        let node = self.queues.iter().find(|node| node.name == self.edit.0).expect("one of its queues");
        queue(&Node { quota: self.edit.1, ..node.clone() })
    }

    /// For people: what a miss happened on.
    pub fn words(&self) -> String {
        let quota = |quota: Quota| {
            let limit =
                |sign: &str, limit: Option<u64>| limit.map(|limit| format!(" {sign}{limit}")).unwrap_or_default();
            format!("{}{}{}", quota.nominal, limit("+", quota.borrow), limit("-", quota.lend))
        };
        let mut lines = Vec::new();
        for node in self.cohorts.iter().chain(&self.queues) {
            let above = node.above.as_deref().unwrap_or("nobody");
            let policies = if node.preemption.is_null() { String::new() } else { format!(" {}", node.preemption) };
            lines.push(format!(
                "    {} below {above}: {} weight {}{policies}",
                node.name,
                quota(node.quota),
                node.weight
            ));
        }
        for (what, all) in [("runs", &self.running), ("comes", &self.coming)] {
            let words =
                |work: &Work| format!("{} {}×{} {}", work.name, work.queue, work.gpus, work.class.unwrap_or("none"));
            lines.push(format!("    {what}: {}", all.iter().map(words).collect::<Vec<_>>().join(", ")));
        }
        lines.push(format!("    edit: {} to {}", self.edit.0, quota(self.edit.1)));
        lines.join("\n")
    }
}

fn groups(quota: Quota) -> Value {
    let mut resource = json!({"name": GPU, "nominalQuota": quota.nominal.to_string()});
    if let Some(limit) = quota.borrow {
        resource["borrowingLimit"] = limit.to_string().into();
    }
    if let Some(limit) = quota.lend {
        resource["lendingLimit"] = limit.to_string().into();
    }
    json!([{"coveredResources": [GPU], "flavors": [{"name": FLAVOR, "resources": [resource]}]}])
}

fn cohort(node: &Node) -> Value {
    let mut spec = json!({"fairSharing": {"weight": node.weight.to_string()}});
    if let Some(above) = &node.above {
        spec["parentName"] = above.as_str().into();
    }
    if node.quota.nominal > 0 || node.quota.borrow.or(node.quota.lend).is_some() {
        spec["resourceGroups"] = groups(node.quota);
    }
    json!({"apiVersion": KUEUE, "kind": "Cohort", "metadata": {"name": node.name}, "spec": spec})
}

fn queue(node: &Node) -> Value {
    json!({
        "apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": node.name},
        "spec": {
            "cohortName": node.above, "namespaceSelector": {}, "preemption": node.preemption,
            "fairSharing": {"weight": node.weight.to_string()}, "resourceGroups": groups(node.quota),
        },
    })
}
