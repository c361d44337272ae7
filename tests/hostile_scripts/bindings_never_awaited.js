// value
for (let i = 0; i < 500; i++) forever({}).catch(() => {}); 1
