// value Timeout MemoryLimit
('a' + '\u0307\u0323'.repeat(2000)).repeat(200).normalize('NFD').length
