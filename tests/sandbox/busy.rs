// An extension in Rust for a trial of the sandbox (tests/sandbox/programs.py), which compiles it. It
// speaks morphir: each line on stdin is a request in JSON. Before it answers, it uses what Rust
// programs use: threads, another process, a file.
use std::io::{BufRead, Write};

fn main() {
    let threads: Vec<_> = (0..8)
        .map(|n| std::thread::spawn(move || std::thread::sleep(std::time::Duration::from_millis(n))))
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let output = std::process::Command::new("/bin/echo").arg("hi").output().unwrap();
    assert_eq!(output.stdout, b"hi\n");
    std::fs::write("/tmp/written", output.stdout).unwrap();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let id: String = line
            .split("\"id\":")
            .nth(1)
            .unwrap_or("0")
            .trim_start()
            .chars()
            .take_while(|c| c.is_ascii_digit())
            .collect();
        let result = if line.contains("\"capabilities\"") { "[]" } else { "null" };
        println!("{{\"id\":{},\"result\":{}}}", id, result);
        std::io::stdout().flush().unwrap();
    }
}
