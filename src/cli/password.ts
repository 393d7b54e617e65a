import { createInterface } from "node:readline";
import { CommandFailure } from "./failure.ts";

const MIN = 10;
const MAX = 200;

/**
 * Never an argument, which every user of the machine can read: from the terminal without echo, or the first line of
 * standard input.
 */
export async function readPassword(): Promise<string> {
  const password = process.stdin.isTTY ? await askTwice() : await firstLine();
  const length = [...password].length;
  if (length < MIN || length > MAX) throw new CommandFailure(`a password has ${MIN} to ${MAX} characters`, true);
  return password;
}

async function firstLine(): Promise<string> {
  for await (const line of createInterface({ input: process.stdin })) return line;
  throw new CommandFailure("the password is read from standard input, which is empty", true);
}

async function askTwice(): Promise<string> {
  const first = await ask("Password: ");
  if ((await ask("Again: ")) !== first) throw new CommandFailure("the two passwords differ", true);
  return first;
}

function ask(question: string): Promise<string> {
  const { stdin, stderr } = process;
  stderr.write(question);
  stdin.setRawMode(true).setEncoding("utf8").resume();
  return new Promise((resolve, reject) => {
    let typed = "";
    const finish = (settle: () => void) => {
      stdin.off("data", onData).setRawMode(false).pause();
      stderr.write("\n");
      settle();
    };
    const onData = (chunk: string) => {
      for (const key of chunk) {
        if (key === "\r" || key === "\n") return finish(() => resolve(typed));
        if (key === "\x03" || key === "\x04") return finish(() => reject(new CommandFailure("cancelled")));
        typed = key === "\x7f" || key === "\b" ? [...typed].slice(0, -1).join("") : typed + key;
      }
    };
    stdin.on("data", onData);
  });
}
