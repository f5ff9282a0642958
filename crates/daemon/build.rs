//! Links the program so that it is small.

fn main() {
    // Addresses that the start-up code has to adjust take a bit each instead of 24 bytes.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
