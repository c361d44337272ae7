//! The figures of `docs/comparison.md` are those of `benches/RESULTS.md`.

use std::fs;

use crate::root;

fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn comparison_has_the_figures_of_the_results() {
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    let (document, results) = (read("docs/comparison.md"), read("benches/RESULTS.md"));
    let results: Vec<Vec<&str>> = results.lines().filter(|line| line.starts_with('|')).map(cells).collect();
    let median = |group: &str, case: &str, who: &str| {
        let row = results.iter().find(|row| row.len() > 3 && row[..3] == [group, case, who]);
        row.unwrap_or_else(|| panic!("{group}, {case}, {who} is not in the results"))[3]
    };
    let mut rows = document.lines().filter(|line| line.starts_with('|'));
    let names = cells(rows.next().unwrap());
    let mut compared = 0;
    for row in rows.skip(1).take_while(|row| !row.starts_with("| |")).map(cells) {
        let (case, group) = row[0].rsplit_once(", ").unwrap();
        for (who, figure) in names.iter().zip(&row).skip(1) {
            assert_eq!(*figure, median(group, case, who), "{case}, {who}");
            compared += 1;
        }
    }
    assert_eq!(compared, 30);
}
