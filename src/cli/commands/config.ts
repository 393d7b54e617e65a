import { Command } from "commander";
import { documentConfig, shownValue } from "../../kernel/config/document.ts";
import { type Config, GROUPS, type Sources, VARIABLE_NAMES } from "../../kernel/config/index.ts";
import { CertificateRefused } from "../../kernel/http/serving/certificate.ts";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { CommandFailure } from "../failure.ts";
import { print } from "../print.ts";

export function configCommand(argv: readonly string[]): Command {
  const check = new Command("check").description("check whether the configuration is valid").action(async (options) => {
    const { config } = configFrom(options);
    await requireFiles(config);
    print("The configuration is valid.");
  });

  const show = new Command("print")
    .description("print every setting; secrets are hidden")
    .option("--sources", "also print where each value comes from")
    .option("--json", "as one JSON object")
    .action((options) => {
      const { config, sources } = configFrom(options);
      print(options.json ? asJson(config, sources, options.sources) : asText(config, sources, options.sources));
    });

  const doc = new Command("doc")
    .description("print the settings reference as Markdown")
    .action(() => print(documentConfig()));

  return new Command("config")
    .description("check, print or document the configuration")
    .addCommand(addConfigOptions(check, argv, "all"))
    .addCommand(addConfigOptions(show, argv, "all"))
    .addCommand(doc);
}

/** A missing certificate, or one that does not match its key, prevents a start like an invalid value. */
async function requireFiles(config: Config): Promise<void> {
  const { requireCertificates } = await import("../../network/tls/certificates.ts");
  try {
    requireCertificates(config);
  } catch (error) {
    throw error instanceof CertificateRefused ? new CommandFailure(error.message, true) : error;
  }
}

function asJson(config: Config, sources: Sources, withSources: boolean): string {
  const entries = VARIABLE_NAMES.map((name) => {
    const value = shownValue(config, name) ?? null;
    return [name, withSources ? { value, source: sources[name] } : value];
  });
  return JSON.stringify({ ...Object.fromEntries(entries), OAUTH: Object.keys(config.OAUTH) }, null, 2);
}

function asText(config: Config, sources: Sources, withSources: boolean): string {
  const width = Math.max(...VARIABLE_NAMES.map((name) => name.length));
  const groups = GROUPS.map(({ title, names }) => {
    const lines = names.map((name) => {
      const value = shownValue(config, name);
      const shown = Array.isArray(value) ? value.join(",") : String(value ?? "");
      return `${name.padEnd(width)}  ${withSources ? sources[name].padEnd(11) : ""}  ${shown}`.trimEnd();
    });
    return [`# ${title}`, ...lines].join("\n");
  });
  const providers = Object.keys(config.OAUTH);
  if (providers.length > 0) groups.push(`# OAuth providers\n${providers.join("\n")}`);
  return groups.join("\n\n");
}
