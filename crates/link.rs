//! Links the programs so that they are small. It is the build script of each of them.

fn main() {
    // Addresses that the start-up code has to adjust take a bit each instead of 24 bytes.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    println!("cargo::rerun-if-changed=../link.rs");
}
