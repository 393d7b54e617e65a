import { Command } from "commander";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { print } from "../print.ts";

const HELP = `
Give it the settings of the server: the same flags, environment or --config file. With the server running it also tries
the media ports and the WebSocket. The exit code is 1 when a check has failed; warnings do not count.`;

const MARK = { pass: "ok  ", warn: "warn", fail: "FAIL" } as const;

export function doctorCommand(argv: readonly string[]): Command {
  const doctor = new Command("doctor")
    .description("diagnose problems with calls, mail and data, and suggest fixes")
    .option("--json", "print the checks as a JSON array")
    .addHelpText("after", HELP)
    .action(async (options) => {
      const { config } = configFrom(options);
      const { runChecks } = await import("../../ops/doctor/doctor.ts");
      const checks = await runChecks(config, Date.now());
      if (options.json) print(JSON.stringify(checks, null, 2));
      else {
        for (const { name, status, detail, remedy } of checks) {
          print(`${MARK[status]}  ${name.padEnd(17)} ${detail}`);
          if (remedy !== "") print(`${" ".repeat(24)}→ ${remedy}`);
        }
      }
      process.exit(checks.some(({ status }) => status === "fail") ? 1 : 0);
    });
  return addConfigOptions(doctor, argv, "all");
}
