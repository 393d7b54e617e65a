import { Command } from "commander";
import { email as emailCheck } from "../../kernel/config/checks.ts";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { CommandFailure } from "../failure.ts";
import { readPassword } from "../password.ts";

export function adminCommand(argv: readonly string[]): Command {
  const create = new Command("create")
    .description("make an operator account; the password is asked for, or read from standard input")
    .argument("<email>")
    .option("--name <name>", "name shown to others")
    .option("--json", "print the account as JSON")
    .action(async (email: string, options) => {
      const { config } = configFrom(options);
      if (!emailCheck.accepts(email)) throw new CommandFailure(`${email} is not ${emailCheck.expected}`, true);
      const password = await readPassword();
      const { operate } = await import("../data.ts");
      const user = await operate(config, "admin create", { email, password, name: options.name });
      console.log(options.json ? JSON.stringify(user) : `Made the operator account ${user.email}.`);
    });

  const reset = new Command("reset-password")
    .description("set another password and end every session of the account")
    .argument("<email>")
    .action(async (email: string, options) => {
      const { config } = configFrom(options);
      const password = await readPassword();
      const { operate } = await import("../data.ts");
      await operate(config, "admin reset-password", { email, password });
      console.log(`The password of ${email} is changed, and its sessions have ended.`);
    });

  return new Command("admin")
    .description("accounts without a browser")
    .addCommand(addConfigOptions(create, argv, ["DATA_DIR"]))
    .addCommand(addConfigOptions(reset, argv, ["DATA_DIR"]));
}
