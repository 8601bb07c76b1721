//! From a line to a command, or what is wrong with it and what was probably meant.

use super::Wrong;
use super::command::*;
use super::script::Item;
use super::words::Words;
use crate::diag::nearest;
use crate::effect::Scope;
use crate::fleet::policy::ConditionStatus;
use crate::manifest::Kind;
use crate::observed::Market;
use crate::provider::Class;
use crate::provider::sim::cluster::{BudgetSpec, MigFault};
use crate::provider::sim::{Fault, Position, Sight};
use crate::units::Duration;

type Parsed = Result<Command, Wrong>;

/// Every command with how it is written.
pub const COMMANDS: &[(&str, &str)] = &[
    ("start", "start TIME [seed N]"),
    ("fleet", "fleet DIR, or fleet with documents under it"),
    ("edit", "edit \"old\" -> \"new\" [and \"old\" -> \"new\"]"),
    ("delete", "delete KIND/NAME"),
    ("add", "add with documents under it"),
    ("advance", "advance 6h"),
    ("plan", "plan"),
    ("steps", "steps"),
    ("keep", "keep plan"),
    ("apply", "apply [kept]"),
    ("converge", "converge [N rounds]"),
    ("rounds", "rounds N"),
    ("settle", "settle"),
    ("weather", "weather SEED [deadly]"),
    ("calm", "calm"),
    ("maybe", "maybe COMMAND"),
    ("status", "status"),
    ("approve", "approve"),
    ("two", "two operators [seed N] [apart 90s]"),
    ("clock", "clock 90s ahead|behind, or clock right"),
    ("show", "show [calls|events|health|faults|fabric]"),
    ("defragment", "defragment on|off"),
    ("fail", "fail next launch no-capacity|throttled|ambiguous|denied|other [N times]"),
    ("lose", "lose next answer done|undone [N times], or lose ledger [as IDENTITY]"),
    ("throttle", "throttle next [N calls]"),
    ("conflict", "conflict next [N writes]"),
    ("crash", "crash before|after|at-answer effect N"),
    ("hide", "hide instances|reservations|nodes|pods|workloads [N reads]"),
    ("unread", "unread instances|reservations|nodes|pods|workloads|ledger [N reads]"),
    ("stale", "stale AGE [N reads]"),
    ("lag", "lag DURATION [N launches]"),
    ("stillborn", "stillborn [N launches]"),
    (
        "submit",
        "submit gang QUOTA GPUS|N x RESOURCE [with RESOURCE=N,…] [named NAME] [tier T] [saves 2m|never] [works 4h] [shrinks to N] [together LEVEL], \
         submit service NS/NAME N x [AMOUNT] RESOURCE [pool P] [anywhere] [pdb min|max N] [together [tier T] [saves 2m]], or \
         submit bare|daemon|mirror NS/NAME [on SLOT]",
    ),
    ("budget", "budget NS/NAME for NS/APP min|max N"),
    ("finish", "finish NAME|NS/NAME"),
    ("deny", "deny evictions NS/APP"),
    ("kill", "kill SLOT"),
    ("xid", "xid SLOT CODE [heals]"),
    ("condition", "condition SLOT TYPE True|False|Unknown|none [saying MESSAGE]"),
    ("notready", "notready SLOT"),
    ("ready", "ready SLOT"),
    ("remove", "remove node SLOT, or remove object KIND/NAME"),
    ("interrupt", "interrupt SLOT"),
    ("recommend", "recommend moving SLOT"),
    ("maintenance", "maintenance SLOT in 1h"),
    ("mig", "mig fail|hang|restart SLOT"),
    ("traffic", "traffic TIDE 0.4|silent"),
    ("capacity", "capacity TYPE ZONE on-demand|spot N|unlimited"),
    ("foreign", "foreign instance TYPE ZONE"),
    ("existing", "existing node NAME TYPE gpus N [labels k=v,…] [shows RESOURCE=N,…]"),
    ("cordon", "cordon SLOT by somebody"),
    ("uncordon", "uncordon SLOT by somebody"),
    ("hands-off", "hands-off SLOT"),
    ("hands-on", "hands-on SLOT"),
    ("label", "label SLOT KEY=VALUE [by NAME], or label SLOT KEY-"),
    ("change", "change KIND/NAME FIELD.OF.BODY VALUE by NAME"),
    ("acceptance", "acceptance 60s|never"),
    ("freeze", "freeze [pool/NAME|node/NAME|SLOT] [all] REASON"),
    ("thaw", "thaw [pool/NAME|node/NAME|SLOT]"),
    ("quarantine", "quarantine SLOT REASON"),
    ("return", "return SLOT"),
    ("drain", "drain [dry-run|force] SLOT [REASON]"),
    ("undrain", "undrain SLOT"),
    ("recall", "recall TIDE"),
    ("lost", "lost"),
    (
        "expect",
        "expect plan | no changes | converged | held WORD | not held WORD | coming WORD | not coming WORD | nodes POOL N | ready POOL N | launches N | \
         terminations N | reboots N | purchases N | evictions N | forced N | suspends N | cuts N | killed N | quiet N \
         rounds | no violations | no orphans | as from nothing | frozen [pool/NAME] | running GANG | waiting GANG | cordoned SLOT | open SLOT | \
         SLOT shows N RESOURCE | object KIND/NAME | no object KIND/NAME",
    ),
];

pub fn command(item: &Item) -> Parsed {
    let (name, rest) = item.text.split_once(char::is_whitespace).unwrap_or((&item.text, ""));
    let Some((_, usage)) = COMMANDS.iter().find(|(known, _)| *known == name) else {
        let wrong = Wrong::new(format!("`{name}` is no command"));
        let near = nearest(name, COMMANDS.iter().map(|(known, _)| *known));
        return Err(match near.and_then(|near| COMMANDS.iter().find(|(known, _)| *known == near)) {
            Some((near, usage)) => wrong.hint(format!("did you mean `{near}`? write: {usage}")),
            None => {
                let names: Vec<&str> = COMMANDS.iter().map(|(known, _)| *known).collect();
                wrong.hint(format!("write one of {}", names.join(", ")))
            }
        });
    };
    if name == "maybe" {
        let inner = Item { text: rest.trim_start().to_string(), ..item.clone() };
        return command(&inner).map(|command| Command::Maybe(Box::new(command)));
    }
    let mut words = Words::new(rest, usage)?;
    let parsed = match name {
        "start" | "fleet" | "edit" | "delete" | "add" => document(name, &mut words, item)?,
        "lose" if words.take("ledger") => {
            let identity = if words.take("as") { Some(words.next("an identity")?.as_str().into()) } else { None };
            Command::Act(Act::LoseLedger(identity))
        }
        "fail" | "lose" | "throttle" | "conflict" | "crash" | "hide" | "unread" | "stale" | "lag" | "stillborn" => {
            Command::Fault(fault(name, &mut words)?)
        }
        "submit" | "budget" | "finish" | "deny" => Command::Work(work(name, &mut words)?),
        "freeze" | "thaw" | "quarantine" | "return" | "drain" | "undrain" | "recall" | "lost" => {
            Command::Order(order(name, &mut words)?)
        }
        "expect" => Command::Expect(expect(&mut words)?),
        "weather" => Command::Weather { seed: words.parse("seed")?, deadly: words.take("deadly") },
        "calm" => Command::Calm,
        "clock" => Command::Clock(clock(&mut words)?),
        "defragment" => match words.next("on or off")?.as_str() {
            "on" => Command::Defragment(true),
            "off" => Command::Defragment(false),
            other => return Err(words.wrong(format!("`{other}` is neither on nor off"))),
        },
        "advance" | "plan" | "steps" | "keep" | "apply" | "converge" | "rounds" | "settle" | "status" | "approve"
        | "two" | "show" => Command::Run(run(name, &mut words)?),
        _ => Command::Act(act(name, &mut words)?),
    };
    words.end()?;
    let takes_block = matches!(parsed, Command::Fleet(From::Text(_)) | Command::Add(_));
    match (&item.block, takes_block) {
        (Some(_), false) => Err(words.wrong(format!("`{name}` takes no lines under it"))),
        _ => Ok(parsed),
    }
}

fn clock(words: &mut Words) -> Result<i64, Wrong> {
    if words.take("right") {
        return Ok(0);
    }
    let off = i64::from(secs(words)?);
    words.one_of("way that a clock is off", &[("ahead", off), ("behind", -off)])
}

fn document(name: &str, words: &mut Words, item: &Item) -> Parsed {
    let block = |words: &Words| item.block.clone().ok_or_else(|| words.wrong("there are no documents under it"));
    Ok(match name {
        "start" => {
            let at = words.parse("time such as 2026-03-02T08:00Z")?;
            let seed = if words.take("seed") { words.parse("seed")? } else { 1 };
            Command::Start { at, seed }
        }
        "fleet" => match words.maybe() {
            Some(directory) => Command::Fleet(From::Directory(directory)),
            None => Command::Fleet(From::Text(block(words)?)),
        },
        "edit" => {
            let mut edits = Vec::new();
            loop {
                let from = words.next("what to replace")?;
                words.must("->")?;
                edits.push((from, words.next("what to write instead")?));
                if !words.take("and") {
                    break Command::Edit(edits);
                }
            }
        }
        "delete" => {
            let what = words.next("a document such as NodePool/train")?;
            let parts = what.split_once('/').and_then(|(kind, name)| Some((kind_named(kind)?, name)));
            let (kind, name) = parts.ok_or_else(|| words.wrong(format!("`{what}` is no document: KIND/NAME")))?;
            Command::Delete { kind, name: name.into() }
        }
        _ => Command::Add(block(words)?),
    })
}

fn kind_named(name: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind.name() == name)
}

fn run(name: &str, words: &mut Words) -> Result<Run, Wrong> {
    Ok(match name {
        "advance" => Run::Advance(words.parse("length of time such as 6h")?),
        "plan" => Run::Plan,
        "steps" => Run::Steps,
        "keep" => {
            words.must("plan")?;
            Run::KeepPlan
        }
        "apply" if words.take("kept") => Run::ApplyKept,
        "apply" => Run::Apply,
        "converge" => Run::Converge { rounds: words.count(&["rounds", "round"], MOST_ROUNDS)? },
        "rounds" => Run::Rounds(words.parse("number")?),
        "settle" => Run::Settle,
        "status" => Run::Status,
        "approve" => Run::Approve,
        "two" => {
            words.must("operators")?;
            let seed = if words.take("seed") { words.parse("seed")? } else { 1 };
            let apart = if words.take("apart") { words.parse("length of time")? } else { Duration::secs(0) };
            Run::TwoOperators { seed, apart }
        }
        _ if words.take("calls") => Run::Calls,
        _ if words.take("events") => Run::Events,
        _ if words.take("health") => Run::Health,
        _ if words.take("faults") => Run::Faults,
        _ if words.take("fabric") => Run::Fabric,
        _ => Run::Show,
    })
}

/// More rounds than any small fleet needs: who needs more goes round in circles.
const MOST_ROUNDS: u32 = 60;

fn fault(name: &str, words: &mut Words) -> Result<Fault, Wrong> {
    let times = |words: &mut Words| words.count(&["times", "time"], 1);
    Ok(match name {
        "fail" => {
            words.must("next")?;
            words.must("launch")?;
            let known = [
                ("no-capacity", Class::NoCapacity),
                ("throttled", Class::Throttled),
                ("ambiguous", Class::Ambiguous),
                ("denied", Class::Denied),
                ("other", Class::Other),
            ];
            let class = words.one_of("kind of failure", &known)?;
            Fault::FailLaunches { times: times(words)?, class }
        }
        "lose" => {
            words.must("next")?;
            words.must("answer")?;
            let done = words.one_of("end of a call", &[("done", true), ("undone", false)])?;
            Fault::Ambiguous { times: times(words)?, done }
        }
        "throttle" => {
            words.must("next")?;
            Fault::Throttle { times: words.count(&["calls", "call"], 1)? }
        }
        "conflict" => {
            words.must("next")?;
            Fault::Conflict { times: words.count(&["writes", "write"], 1)? }
        }
        "crash" => {
            let known = [
                ("before", Position::BeforeSend),
                ("after", Position::AfterCommit),
                ("at-answer", Position::AfterAnswer),
            ];
            let position = words.one_of("place of a crash", &known)?;
            words.must("effect")?;
            Fault::Crash { call: words.parse("number")?, position }
        }
        "hide" | "unread" => {
            let known = [
                ("instances", Sight::Instances),
                ("reservations", Sight::Reservations),
                ("nodes", Sight::Nodes),
                ("pods", Sight::Pods),
                ("workloads", Sight::Workloads),
                ("ledger", Sight::Ledger),
            ];
            let hides = name == "hide";
            let known = if hides { &known[..5] } else { &known[..] };
            let what = words.one_of("part of what is read", known)?;
            let reads = words.count(&["reads", "read"], 1)?;
            if hides { Fault::Hide { what, reads } } else { Fault::Gap { what, reads } }
        }
        "stale" => Fault::Stale { age: words.parse("length of time")?, reads: words.count(&["reads", "read"], 1)? },
        "lag" => Fault::Lag { by: words.parse("length of time")?, launches: words.count(&["launches", "launch"], 1)? },
        _ => Fault::Stillborn { launches: words.count(&["launches", "launch"], 1)? },
    })
}

fn place(words: &mut Words) -> Result<Place, Wrong> {
    words.next("a slot such as train/3").map(Place)
}

fn act(name: &str, words: &mut Words) -> Result<Act, Wrong> {
    Ok(match name {
        "kill" => Act::Kill(place(words)?),
        "xid" => Act::Xid { place: place(words)?, code: words.parse("code")?, heals: words.take("heals") },
        "condition" => {
            let (place, kind) = (place(words)?, words.next("a condition")?);
            let known = [
                ("True", Some(ConditionStatus::True)),
                ("False", Some(ConditionStatus::False)),
                ("Unknown", Some(ConditionStatus::Unknown)),
                ("none", None),
            ];
            let status = words.one_of("status", &known)?;
            let message = if words.take("saying") { words.next("a message in quotes")? } else { String::new() };
            Act::Condition { place, kind, status, message }
        }
        "notready" => Act::Ready { place: place(words)?, ready: false },
        "ready" => Act::Ready { place: place(words)?, ready: true },
        "remove" if words.take("object") => Act::DeleteObject { object: words.parse("object")? },
        "remove" => {
            words.must("node")?;
            Act::RemoveNode(place(words)?)
        }
        "interrupt" => Act::Interrupt(place(words)?),
        "recommend" => {
            words.must("moving")?;
            Act::Recommend(place(words)?)
        }
        "maintenance" => {
            let place = place(words)?;
            words.must("in")?;
            Act::Maintenance { place, within: words.parse("length of time")? }
        }
        "mig" if words.take("restart") => Act::MigRestart(place(words)?),
        "mig" => {
            let fault = words.one_of("trap of mig-manager", &[("fail", MigFault::Fail), ("hang", MigFault::Hang)])?;
            Act::Mig { fault, place: place(words)? }
        }
        "traffic" => {
            let tide = words.next("a tide")?.into();
            let value = if words.take("silent") { None } else { Some(words.parse("number such as 0.4")?) };
            Act::Traffic { tide, value }
        }
        "capacity" => {
            let (kind, zone) = (words.next("an instance type")?.into(), words.next("a zone")?.into());
            let market = words.one_of("market", &[("on-demand", Market::OnDemand), ("spot", Market::Spot)])?;
            let left = if words.take("unlimited") { None } else { Some(words.parse("number")?) };
            Act::Capacity { kind, zone, market, left }
        }
        "foreign" => {
            words.must("instance")?;
            Act::ForeignInstance { kind: words.next("an instance type")?.into(), zone: words.next("a zone")?.into() }
        }
        "existing" => existing(words)?,
        "cordon" | "uncordon" => {
            let place = place(words)?;
            words.must("by")?;
            words.must("somebody")?;
            Act::Cordon { place, on: name == "cordon" }
        }
        "hands-off" => Act::HandsOff { place: place(words)?, on: true },
        "hands-on" => Act::HandsOff { place: place(words)?, on: false },
        "label" => label(words)?,
        "change" => {
            let object = words.parse("object such as ClusterQueue/vision")?;
            let (path, value) = (words.next("a field")?, words.next("its value")?);
            words.must("by")?;
            Act::Change { object, path, value, by: words.next("a name")? }
        }
        _ if words.take("never") => Act::Acceptance(None),
        _ => Act::Acceptance(Some(secs(words)?)),
    })
}

fn secs(words: &mut Words) -> Result<u32, Wrong> {
    let length: Duration = words.parse("length of time")?;
    u32::try_from(length.as_secs()).map_err(|_| words.wrong("that is too long"))
}

fn existing(words: &mut Words) -> Result<Act, Wrong> {
    words.must("node")?;
    let (node, kind) = (words.next("a name")?, words.next("an instance type")?.into());
    words.must("gpus")?;
    let gpus = words.parse("number")?;
    let labels = if words.take("labels") { words.pairs("labels")? } else { Vec::new() };
    let shows = if words.take("shows") { words.pairs("resources")? } else { Vec::new() };
    Ok(Act::Existing { node, kind, gpus, labels, shows })
}

fn label(words: &mut Words) -> Result<Act, Wrong> {
    let (place, text) = (place(words)?, words.next("a label")?);
    let (key, value) = match (text.split_once('='), text.strip_suffix('-')) {
        (Some((key, value)), _) => (key.to_string(), Some(value.to_string())),
        (None, Some(key)) => (key.to_string(), None),
        (None, None) => return Err(words.wrong(format!("`{text}` is no label"))),
    };
    let by = if words.take("by") { Some(words.next("a name")?) } else { None };
    Ok(Act::Label { place, key, value, by })
}

fn work(name: &str, words: &mut Words) -> Result<Work, Wrong> {
    if name == "finish" {
        return Ok(Work::Finish(words.next("a name")?));
    }
    if name == "deny" {
        words.must("evictions")?;
        return Ok(Work::DenyEvictions(words.parse("name with its namespace")?));
    }
    if name == "budget" {
        let name = words.parse("name with its namespace")?;
        words.must("for")?;
        let app = words.parse("name with its namespace")?;
        return Ok(Work::Budget { name, app, spec: budget(words)? });
    }
    #[derive(Clone, Copy)]
    enum What {
        Gang,
        Service,
        Pod(PodKind),
    }
    let known = [
        ("gang", What::Gang),
        ("service", What::Service),
        ("bare", What::Pod(PodKind::Bare)),
        ("daemon", What::Pod(PodKind::Daemon)),
        ("mirror", What::Pod(PodKind::Mirror)),
    ];
    Ok(match words.one_of("kind of work", &known)? {
        What::Gang => Work::Gang(gang(words)?),
        What::Service => Work::Service(service(words)?),
        What::Pod(kind) => {
            let name = words.parse("name with its namespace")?;
            let place = if words.take("on") { Some(place(words)?) } else { None };
            Work::Pod { kind, name, place }
        }
    })
}

fn gang(words: &mut Words) -> Result<GangWish, Wrong> {
    let quota = words.next("a quota")?.into();
    let count = words.parse("number of GPUs or pods")?;
    let size = if words.take("x") {
        Size::Pods { pods: count, resource: words.next("a resource")? }
    } else {
        Size::Gpus(count)
    };
    // Long enough to be waited for, short enough for every deadline.
    let save_secs = Some(60);
    let (with, fewest, name, tier, work_secs, level) = (Vec::new(), None, None, None, None, None);
    let mut wish = GangWish { quota, size, with, fewest, name, tier, save_secs, work_secs, level };
    while let Some(word) = words.maybe() {
        match word.as_str() {
            "with" => wish.with = words.pairs("resources")?,
            "named" => wish.name = Some(words.next("a name")?),
            "tier" => wish.tier = Some(words.next("a tier")?.into()),
            "saves" if words.take("never") => wish.save_secs = None,
            "saves" => wish.save_secs = Some(secs(words)?),
            "works" => wish.work_secs = Some(secs(words)?),
            "shrinks" => {
                words.must("to")?;
                wish.fewest = Some(words.parse("number of pods")?);
            }
            "together" => wish.level = Some(words.next("a level of the fabric")?),
            other => return Err(words.wrong(format!("`{other}` says nothing about a gang"))),
        }
    }
    Ok(wish)
}

fn service(words: &mut Words) -> Result<ServiceWish, Wrong> {
    let name = words.parse("name with its namespace")?;
    let replicas = words.parse("number of replicas")?;
    words.must("x")?;
    let amount = words.peek().and_then(|word| word.parse().ok());
    if amount.is_some() {
        words.maybe();
    }
    let resource = words.next("a resource")?;
    let amount = amount.unwrap_or(1);
    let (pool, budget, tier, save_secs) = (None, None, None, None);
    let (anywhere, together) = (false, false);
    let mut wish = ServiceWish { name, replicas, resource, amount, pool, budget, anywhere, together, tier, save_secs };
    if words.take("pool") {
        wish.pool = Some(words.next("a pool")?.into());
    }
    wish.anywhere = words.take("anywhere");
    if words.take("pdb") {
        wish.budget = Some(self::budget(words)?);
    }
    wish.together = words.take("together");
    if words.take("tier") {
        wish.tier = Some(words.next("a tier")?.into());
    }
    if words.take("saves") {
        wish.save_secs = Some(secs(words)?);
    }
    Ok(wish)
}

fn budget(words: &mut Words) -> Result<BudgetSpec, Wrong> {
    let is_min = words.one_of("bound", &[("min", true), ("max", false)])?;
    let pods = words.parse("number of pods")?;
    Ok(if is_min { BudgetSpec::min_available(pods) } else { BudgetSpec::max_unavailable(pods) })
}

fn scope(words: &mut Words) -> Option<Where> {
    let word = words.peek()?;
    let found = match word.split_once('/') {
        Some(("pool", name)) => Where::Known(Scope::Pool(name.into())),
        Some(("node", name)) => Where::Known(Scope::Node(name.into())),
        Some((_, number)) if number.parse::<u32>().is_ok() => Where::NodeOf(Place(word.into())),
        _ => return None,
    };
    words.maybe();
    Some(found)
}

fn order(name: &str, words: &mut Words) -> Result<Order, Wrong> {
    let reason = |words: &mut Words| {
        let text = words.rest();
        if text.is_empty() { Err(words.wrong("the reason is missing")) } else { Ok(text) }
    };
    Ok(match name {
        "freeze" => {
            let scope = scope(words).unwrap_or(Where::Known(Scope::Fleet));
            let all = words.take("all");
            Order::Freeze { scope, all, reason: reason(words)? }
        }
        "thaw" => Order::Thaw { scope: scope(words).unwrap_or(Where::Known(Scope::Fleet)) },
        "quarantine" => Order::Quarantine { place: place(words)?, reason: reason(words)? },
        "return" => Order::Return(place(words)?),
        "drain" if words.take("dry-run") => Order::DryDrain(place(words)?),
        "drain" => {
            let force = words.take("force");
            Order::Drain { force, place: place(words)?, reason: reason(words)? }
        }
        "undrain" => Order::Undrain(place(words)?),
        "lost" => Order::Lost,
        _ => Order::Recall(words.next("a tide")?.into()),
    })
}

fn expect(words: &mut Words) -> Result<Expect, Wrong> {
    let counted = [
        ("launches", Counted::Launches),
        ("terminations", Counted::Terminations),
        ("reboots", Counted::Reboots),
        ("purchases", Counted::Purchases),
        ("evictions", Counted::Evictions),
        ("forced", Counted::Forced),
        ("suspends", Counted::Suspends),
        ("cuts", Counted::Cuts),
        ("killed", Counted::Killed),
    ];
    let word = words.next("what is expected")?;
    if let Some((_, what)) = counted.iter().find(|(name, _)| *name == word) {
        return Ok(Expect::Count { what: *what, count: words.parse("number")? });
    }
    Ok(match word.as_str() {
        "plan" => Expect::Plan,
        "converged" => Expect::Converged,
        "as" => {
            words.must("from")?;
            words.must("nothing")?;
            Expect::AsFromNothing
        }
        "held" => Expect::Held(words.rest()),
        "coming" => Expect::Coming(words.rest()),
        "not" if words.take("coming") => Expect::NotComing(words.rest()),
        "not" => {
            words.must("held")?;
            Expect::NotHeld(words.rest())
        }
        "no" if words.take("changes") => Expect::NoChanges,
        "no" if words.take("object") => Expect::Object { object: words.parse("object")?, there: false },
        "no" if words.take("orphans") => Expect::NoOrphans,
        "no" => {
            words.must("violations")?;
            Expect::NoViolations
        }
        "object" => Expect::Object { object: words.parse("object")?, there: true },
        "nodes" => Expect::Nodes { pool: words.next("a pool")?.into(), count: words.parse("number")? },
        "ready" => Expect::Ready { pool: words.next("a pool")?.into(), count: words.parse("number")? },
        "quiet" => Expect::Quiet { rounds: words.count(&["rounds", "round"], 100)? },
        "frozen" => match scope(words) {
            Some(Where::Known(scope)) => Expect::Frozen(scope),
            _ => Expect::Frozen(Scope::Fleet),
        },
        "running" => Expect::Running { gang: words.next("a gang")?, yes: true },
        "waiting" => Expect::Running { gang: words.next("a gang")?, yes: false },
        "cordoned" => Expect::Cordoned { place: place(words)?, yes: true },
        "open" => Expect::Cordoned { place: place(words)?, yes: false },
        slot if slot.contains('/') => {
            let place = Place(slot.into());
            words.must("shows")?;
            Expect::Shows { place, amount: words.parse("number")?, resource: words.next("a resource")? }
        }
        other => return Err(words.wrong(format!("`{other}` is nothing that can be expected"))),
    })
}
