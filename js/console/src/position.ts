// Places in the code of a run, as the server names them: lines from 1, columns in bytes from 1.

export interface Position {
  line: number;
  column: number;
}

/** The first place in a stack that is in the code of that name. */
export function positionIn(stack: string | undefined, name: string): Position | undefined {
  const [, line, column] = new RegExp(`\\b${name.replaceAll('.', '\\.')}:(\\d+):(\\d+)`).exec(stack ?? '') ?? [];
  return line === undefined || column === undefined ? undefined : { line: Number(line), column: Number(column) };
}

/** How many UTF-16 units the first `bytes` bytes of a text are. */
export function charsOf(text: string, bytes: number): number {
  return new TextDecoder().decode(new TextEncoder().encode(text).subarray(0, bytes)).length;
}
