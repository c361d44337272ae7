// A transcript, line by line; the language is that of tests/support/script.rs.

export interface Step {
  line: number;
  word: string;
  rest: string;
}

const WORDS = new Set(['#!', '==', '<=', '>>', '>b', '<<', '<<=', '<!', '<.', '>!', 'js>', 'js<', 'js!']);

export function parse(text: string): Step[] {
  const steps: Step[] = [];
  text.split('\n').forEach((content, index) => {
    const last = steps.at(-1);
    if (content.startsWith('|') && last?.word === 'js>') {
      last.rest += `\n${content.slice(1)}`;
    } else if (content.trim() !== '' && (!content.startsWith('#') || content.startsWith('#!'))) {
      const space = content.indexOf(' ');
      const [word, rest] = space < 0 ? [content, ''] : [content.slice(0, space), content.slice(space + 1)];
      if (!WORDS.has(word) && !/^==\[.*\]$/.test(word)) throw new Error(`${index + 1}: what is \`${word}\`?`);
      steps.push({ line: index + 1, word, rest });
    }
  });
  return steps;
}

export interface Settings {
  live: boolean;
  limits: Record<string, number>;
  sessions: Record<string, number>;
  params: Record<string, unknown>;
}

export function settingsOf(steps: Step[]): Settings {
  const settings: Settings = { live: false, limits: {}, sessions: {}, params: {} };
  for (const { rest } of steps.filter(({ word }) => word === '#!')) {
    const [name, ...json] = rest.split(' ');
    if (name === 'live') settings.live = true;
    else if (name === 'limits' || name === 'sessions' || name === 'params')
      Object.assign(settings[name], JSON.parse(json.join(' ')));
    else throw new Error(`no setting \`${name}\``);
  }
  return settings;
}

/** The settings as a file for the server; empty when the transcript asks for none. */
export function settingsFile({ limits, sessions }: Settings): string {
  const table = (name: string, values: Record<string, number>) =>
    Object.keys(values).length === 0
      ? ''
      : `[${name}]\n${Object.entries(values)
          .map(([key, value]) => `${key} = ${value}\n`)
          .join('')}`;
  return table('limits', limits) + table('sessions', sessions);
}
