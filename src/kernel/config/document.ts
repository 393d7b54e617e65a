import { type Config, flagOf, GROUPS, VARIABLES, type VariableName } from "./variables.ts";

const PREAMBLE = `Every variable is a flag as well: \`${flagOf("PORT")}\` is \`PORT\`. A flag wins over the environment, the environment over
the file of \`--config FILE\` (TOML; \`chat_max_text_length\` under any table, or \`max_text_length\` under \`[chat]\`), the file
over the default.`;

const OAUTH = `### Sign-in providers

| Variable | Description |
|---|---|
| \`OAUTH_<NAME>_CLIENT_ID\`, \`OAUTH_<NAME>_CLIENT_SECRET\` | A sign-in provider. \`GOOGLE\` and \`GITHUB\` need no more. |
| \`OAUTH_<NAME>_ISSUER\` | Address of any other OpenID Connect issuer. |`;

/** The reference of all settings as Markdown, for the configuration guide. */
export function documentConfig(): string {
  const groups = GROUPS.map(({ title, names }) =>
    [`### ${title}`, "", "| Variable | Default | Values | Description |", "|---|---|---|---|", ...names.map(row)].join(
      "\n",
    ),
  );
  return [PREAMBLE, ...groups, OAUTH].join("\n\n");
}

/** A value in printable form; a secret is only shown as set or not set. */
export function shownValue(config: Config, name: VariableName): unknown {
  const value = config[name];
  return VARIABLES[name].secret && value !== undefined ? "[secret]" : value;
}

function row(name: VariableName): string {
  const { fallback, fallbackText, range, description, secret } = VARIABLES[name];
  const shown = Array.isArray(fallback) ? fallback.join(",") : String(fallback ?? "");
  const defaultCell = fallbackText ?? (shown === "" ? "" : `\`${shown}\``);
  return `| \`${name}\` | ${defaultCell} | ${secret ? "secret, " : ""}${range} | ${description.replaceAll("|", "\\|")} |`;
}
