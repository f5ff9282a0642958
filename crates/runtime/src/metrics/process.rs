//! `process_*`, read from `/proc` when asked. A number that cannot be read is left out rather than told wrong.

use prometheus::{
    Counter, Gauge, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use std::{fs, sync::Mutex};

/// `/proc` counts time in hundredths of a second on every platform we build for; the kernel keeps it fixed for programs.
const TICKS_PER_SECOND: f64 = 100.0;

pub(super) struct ProcessCollector {
    cpu: Counter,
    /// A counter can only grow: remember what was counted, also when two scrapes meet.
    cpu_counted: Mutex<f64>,
    gauges: [Gauge; 6],
}

const GAUGES: [(&str, &str); 6] = [
    ("process_open_fds", "Number of open file descriptors."),
    ("process_max_fds", "Maximum number of open file descriptors."),
    ("process_virtual_memory_bytes", "Virtual memory size in bytes."),
    ("process_resident_memory_bytes", "Resident memory size in bytes."),
    (
        "process_start_time_seconds",
        "Start time of the process since the Unix epoch in seconds.",
    ),
    ("process_threads", "Number of threads of the process."),
];

impl ProcessCollector {
    pub(super) fn new() -> prometheus::Result<Self> {
        let [open, max, virtual_memory, resident, start, threads] =
            GAUGES.map(|(name, help)| Gauge::with_opts(Opts::new(name, help)));
        Ok(Self {
            cpu: Counter::with_opts(Opts::new(
                "process_cpu_seconds_total",
                "Total user and system CPU time spent in seconds.",
            ))?,
            cpu_counted: Mutex::new(0.0),
            gauges: [open?, max?, virtual_memory?, resident?, start?, threads?],
        })
    }
}

impl Collector for ProcessCollector {
    fn desc(&self) -> Vec<&Desc> {
        let mut all = self.cpu.desc();
        all.extend(self.gauges.iter().flat_map(Collector::desc));
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let now = Reading::take();
        let mut families = Vec::new();
        if let Some(cpu) = now.cpu_seconds {
            if let Ok(mut counted) = self.cpu_counted.lock() {
                self.cpu.inc_by((cpu - *counted).max(0.0));
                *counted = counted.max(cpu);
            }
            families.extend(self.cpu.collect());
        }
        let values = [
            now.open_fds,
            now.max_fds,
            now.virtual_bytes,
            now.resident_bytes,
            now.start_seconds,
            now.threads,
        ];
        for (gauge, value) in self.gauges.iter().zip(values) {
            if let Some(value) = value {
                gauge.set(value);
                families.extend(gauge.collect());
            }
        }
        families
    }
}

#[derive(Debug, Default, PartialEq)]
struct Reading {
    cpu_seconds: Option<f64>,
    open_fds: Option<f64>,
    max_fds: Option<f64>,
    virtual_bytes: Option<f64>,
    resident_bytes: Option<f64>,
    start_seconds: Option<f64>,
    threads: Option<f64>,
}

impl Reading {
    fn take() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let mut reading = Self::from_texts(
            &read("/proc/self/stat"),
            &read("/proc/self/status"),
            &read("/proc/self/limits"),
            &read("/proc/stat"),
        );
        // The listing itself holds one descriptor open.
        reading.open_fds = fs::read_dir("/proc/self/fd")
            .ok()
            .and_then(|entries| u32::try_from(entries.count().saturating_sub(1)).ok())
            .map(f64::from);
        reading
    }

    fn from_texts(stat: &str, status: &str, limits: &str, machine: &str) -> Self {
        // The second field is the program's name in brackets and may hold anything, so count from behind it.
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_whitespace().collect())
            .unwrap_or_default();
        // Fields are numbered from 1 in the manual; the first one here is number 3.
        let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<f64>().ok());
        let kilobytes = |name| word_after(status, name).map(|value| value * 1024.0);
        Self {
            cpu_seconds: field(14)
                .zip(field(15))
                .map(|(user, system)| (user + system) / TICKS_PER_SECOND),
            open_fds: None,
            max_fds: word_after(limits, "Max open files"),
            virtual_bytes: kilobytes("VmSize:"),
            resident_bytes: kilobytes("VmRSS:"),
            start_seconds: word_after(machine, "btime ")
                .zip(field(22))
                .map(|(boot, ticks)| boot + ticks / TICKS_PER_SECOND),
            threads: word_after(status, "Threads:"),
        }
    }
}

/// The number behind `name` at the start of a line.
fn word_after(text: &str, name: &str) -> Option<f64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "42 (odd) name (x) S 1 42 42 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 4 0 12345 99 7 184 1 1 0";

    #[test]
    fn given_the_texts_of_proc_then_the_numbers_are_read() {
        let reading = Reading::from_texts(
            STAT,
            "Name:\tx\nVmSize:\t    2048 kB\nVmRSS:\t     512 kB\nThreads:\t4\n",
            "Limit                     Soft Limit           Hard Limit\nMax open files            1024                 4096  files\n",
            "cpu  1 2 3\nbtime 1700000000\n",
        );
        let expected = Reading {
            cpu_seconds: Some(2.0),
            open_fds: None,
            max_fds: Some(1024.0),
            virtual_bytes: Some(2_097_152.0),
            resident_bytes: Some(524_288.0),
            start_seconds: Some(1_700_000_123.45),
            threads: Some(4.0),
        };
        assert_eq!(reading, expected);
    }

    #[test]
    fn given_unreadable_texts_then_numbers_are_left_out() {
        assert_eq!(
            Reading::from_texts("", "", "Max open files unlimited", "nonsense"),
            Reading::default()
        );
    }

    #[test]
    fn given_two_scrapes_then_the_cpu_counter_does_not_go_back() {
        let collector = ProcessCollector::new().expect("collector");
        let value = || {
            collector.collect();
            collector.cpu.get()
        };
        let first = value();
        assert!(value() >= first);
    }
}
