// value
queueMicrotask(() => { throw new Error("late"); }); try { queueMicrotask(5); } catch (e) { e.name }
