import { createInterface } from "node:readline";
import { Command } from "commander";
import { email as emailCheck } from "../../kernel/config/checks.ts";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { CommandFailure } from "../failure.ts";
import { print } from "../print.ts";

const MIN_PASSWORD_LENGTH = 10;
const MAX_PASSWORD_LENGTH = 200;

export function adminCommand(argv: readonly string[]): Command {
  const create = new Command("create")
    .description("create an operator account; prompts for the password, or reads it from standard input")
    .argument("<email>")
    .option("--name <name>", "name shown to others")
    .option("--json", "print the account as JSON")
    .action(async (email: string, options) => {
      const { config } = configFrom(options);
      if (!emailCheck.accepts(email)) throw new CommandFailure(`${email} is not ${emailCheck.expected}`, true);
      const password = await readPassword();
      const { operate } = await import("../data.ts");
      const user = await operate(config, "admin create", { email, password, name: options.name });
      print(options.json ? JSON.stringify(user) : `Made the operator account ${user.email}.`);
    });

  const reset = new Command("reset-password")
    .description("set a new password and end all sessions of the account")
    .argument("<email>")
    .action(async (email: string, options) => {
      const { config } = configFrom(options);
      const password = await readPassword();
      const { operate } = await import("../data.ts");
      await operate(config, "admin reset-password", { email, password });
      print(`The password of ${email} is changed, and its sessions have ended.`);
    });

  return new Command("admin")
    .description("manage dashboard accounts")
    .addCommand(addConfigOptions(create, argv, ["DATA_DIR"]))
    .addCommand(addConfigOptions(reset, argv, ["DATA_DIR"]));
}

/**
 * Reads from the terminal without echo, or the first line of standard input. A password is never an argument, because
 * every user of the machine can read arguments.
 */
async function readPassword(): Promise<string> {
  const password = process.stdin.isTTY ? await promptTwice() : await firstLine();
  const length = [...password].length;
  if (length < MIN_PASSWORD_LENGTH || length > MAX_PASSWORD_LENGTH) {
    throw new CommandFailure(`a password has ${MIN_PASSWORD_LENGTH} to ${MAX_PASSWORD_LENGTH} characters`, true);
  }
  return password;
}

async function firstLine(): Promise<string> {
  for await (const line of createInterface({ input: process.stdin })) return line;
  throw new CommandFailure("the password is read from standard input, which is empty", true);
}

async function promptTwice(): Promise<string> {
  const first = await prompt("Password: ");
  if ((await prompt("Again: ")) !== first) throw new CommandFailure("the two passwords differ", true);
  return first;
}

function prompt(question: string): Promise<string> {
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
