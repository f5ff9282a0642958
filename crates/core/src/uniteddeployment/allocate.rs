//! How many Pods each subset gets.
//!
//! Shares of the total are rounded to the nearest, halves up.
//!
//! 1. **As specified**: subsets with `replicas` get so many. The rest is divided evenly among the others; what cannot be divided goes, one each, to those
//!    that are the largest now, and among equals to the last by name. It is an error when the subsets ask for more than there is, or for less and nobody takes
//!    the rest.
//! 2. **Within limits**, as soon as a subset has `minReplicas` or `maxReplicas`: in order each gets its minimum, as far as Pods are there; then, in order, more up to its
//!    maximum.
//! 3. **Adaptive**: the same, with other limits. A subset that takes no Pods keeps those that are ready and gets no more; in the others Pods that are ready are
//!    not taken away to have them in a subset that comes first.
//! 4. **With reservation**: Pods that wait for a node stay where they are and do not count, so that others are made in their place elsewhere. All together may be more than
//!    the total.

use kruise_api::shared::IntOrPercent;

/// How Pods are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As the user says it, whether there is room or not.
    Fixed,
    /// Away from subsets without room.
    Adaptive,
    /// The same, and what waits there is kept.
    Reserving,
}

/// A subset, as far as its share depends on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share<'a> {
    /// Its name.
    pub name: &'a str,
    /// Wanted Pods.
    pub replicas: Option<&'a IntOrPercent>,
    /// Pods it gets first.
    pub min: Option<&'a IntOrPercent>,
    /// Most Pods.
    pub max: Option<&'a IntOrPercent>,
    /// Pods that its workload asks for; none when there is no workload yet.
    pub current: Option<i32>,
    /// Pods of it that are ready.
    pub ready: i32,
    /// It takes no Pods now.
    pub is_unschedulable: bool,
    /// It took none when it was last looked at.
    pub is_marked: bool,
    /// Pods that wait there and are made up for elsewhere.
    pub reserved: i32,
}

/// Returns the Pods of each subset, in their order.
///
/// # Errors
///
/// When the total cannot be divided as the subsets ask.
pub fn allocate(total: i32, mode: Mode, subsets: &[Share<'_>]) -> Result<Vec<i32>, String> {
    let total = total.max(0);
    let is_limited = subsets.iter().any(|share| share.min.is_some() || share.max.is_some());
    match mode {
        Mode::Fixed if is_limited => Ok(fill(total, &limits(total, subsets)?)),
        Mode::Fixed => specified(total, subsets),
        Mode::Adaptive => adaptive(total, subsets),
        Mode::Reserving => Ok(reserving(total, subsets, &limits(total, subsets)?)),
    }
}

fn scaled(value: &IntOrPercent, total: i32) -> Result<i32, String> {
    let count = value.round_of(total).map_err(|error| error.to_string())?;
    Ok(count.max(0))
}

fn specified(total: i32, subsets: &[Share<'_>]) -> Result<Vec<i32>, String> {
    let wanted: Vec<Option<i32>> = subsets
        .iter()
        .map(|share| share.replicas.and_then(|replicas| scaled(replicas, total).ok()))
        .collect();
    let fixed: i64 = wanted.iter().flatten().map(|count| i64::from(*count)).sum();
    let open = wanted.iter().filter(|count| count.is_none()).count();
    let rest = i64::from(total) - fixed;
    if rest < 0 {
        return Err(format!(
            "the subsets ask for {fixed} Pods, and spec.replicas is {total}"
        ));
    }
    if rest > 0 && open == 0 && !subsets.is_empty() {
        return Err(format!(
            "all subsets together ask for {fixed} Pods, and spec.replicas is {total}"
        ));
    }
    // The largest now come first, and among equals the last by name.
    let mut order: Vec<(usize, &Share<'_>)> = subsets.iter().enumerate().collect();
    order.retain(|(index, _)| wanted.get(*index).is_some_and(Option::is_none));
    order.sort_by(|(_, one), (_, other)| {
        let key = |share: &Share<'_>| share.current.unwrap_or_default();
        key(other).cmp(&key(one)).then_with(|| other.name.cmp(one.name))
    });
    let count = i64::try_from(open).unwrap_or(i64::MAX).max(1);
    let (each, more) = (rest / count, rest % count);
    let mut shares: Vec<i32> = wanted.iter().map(|count| count.unwrap_or_default()).collect();
    for (place, (index, _)) in order.into_iter().enumerate() {
        let extra = i64::from(i64::try_from(place).is_ok_and(|place| place < more));
        if let Some(share) = shares.get_mut(index) {
            *share = i32::try_from(each + extra).unwrap_or(i32::MAX);
        }
    }
    Ok(shares)
}

/// The least and the most Pods of a subset.
#[derive(Clone, Copy, Debug)]
struct Limits {
    min: i32,
    max: i32,
}

fn limits(total: i32, subsets: &[Share<'_>]) -> Result<Vec<Limits>, String> {
    let read = |share: &Share<'_>, field: &str, value: Option<&IntOrPercent>, otherwise: i32| {
        let count = value.map_or(Ok(otherwise), |value| scaled(value, total));
        count.map_err(|error| format!("{field} of subset {}: {error}", share.name))
    };
    let of = |share: &Share<'_>| {
        Ok(Limits {
            min: read(share, "minReplicas", share.min, 0)?,
            max: read(share, "maxReplicas", share.max, i32::MAX)?,
        })
    };
    subsets.iter().map(of).collect()
}

fn fill(total: i32, limits: &[Limits]) -> Vec<i32> {
    let mut rest = total;
    let mut take = |most: i32| {
        let count = most.min(rest).max(0);
        rest -= count;
        count
    };
    let least: Vec<i32> = limits.iter().map(|limit| take(limit.min)).collect();
    let more = least.iter().zip(limits);
    more.map(|(count, limit)| count.saturating_add(take(limit.max.saturating_sub(limit.min))))
        .collect()
}

fn adaptive(total: i32, subsets: &[Share<'_>]) -> Result<Vec<i32>, String> {
    let mut limits = limits(total, subsets)?;
    for (limit, share) in limits.iter_mut().zip(subsets) {
        let Limits { min, max } = *limit;
        if min > max {
            return Err(format!("subset {}: at least {min} Pods, and at most {max}", share.name));
        }
        let ready = share.ready.max(0);
        if share.current.is_some() && share.is_unschedulable {
            limit.min = ready.max(min).min(max);
            limit.max = ready.min(max);
        } else if ready > min {
            limit.min = ready.min(max);
        }
    }
    Ok(fill(total, &limits))
}

/// The share of a subset while it grows.
struct Growing {
    count: i32,
    /// Pods that will find a node; negative once more were given than that.
    room: i64,
}

impl Growing {
    fn of(share: &Share<'_>) -> Self {
        let room = match share.current {
            Some(current) if share.is_unschedulable || share.is_marked => {
                i64::from(current) - i64::from(share.reserved)
            }
            _ => i64::from(i32::MAX) * 2,
        };
        Self { count: 0, room }
    }

    /// Gives it Pods up to a number, no more than there are. Returns how many of them will find a node.
    fn take(&mut self, up_to: i32, rest: i32) -> i32 {
        let more = up_to.saturating_sub(self.count).min(rest).max(0);
        self.count = self.count.saturating_add(more);
        self.room -= i64::from(more);
        let placed = i64::from(more) + self.room.min(0);
        i32::try_from(placed.max(0)).unwrap_or(more)
    }
}

fn reserving(total: i32, subsets: &[Share<'_>], limits: &[Limits]) -> Vec<i32> {
    let mut rest = total;
    let mut growing: Vec<Growing> = subsets.iter().map(Growing::of).collect();
    for (subset, limit) in growing.iter_mut().zip(limits) {
        rest -= subset.take(limit.min, rest);
    }
    for ((subset, limit), share) in growing.iter_mut().zip(limits).zip(subsets) {
        let most = match share.current {
            // What waits stays, and no more is sent after it.
            Some(current) if share.is_unschedulable => current.min(limit.max),
            _ => limit.max,
        };
        rest -= subset.take(most, rest);
    }
    growing.into_iter().map(|subset| subset.count).collect()
}

#[cfg(test)]
mod tests;
