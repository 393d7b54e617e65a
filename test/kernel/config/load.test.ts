import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import fc from "fast-check";
import {
  ConfigError,
  type ConfigInput,
  loadConfig,
  VARIABLE_NAMES,
  VARIABLES,
} from "../../../src/kernel/config/index.ts";
import { isKnown, looksLikeOurs } from "../../../src/kernel/config/unknown-names.ts";
import { editDistance } from "../../../src/kernel/nearest-name.ts";
import { testConfig } from "../../harness/test-config.ts";

function problemsOf(input: ConfigInput): readonly string[] {
  try {
    loadConfig(input);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

describe("[11] the source of a setting", () => {
  const file = { PORT: 1, limits: { chat_max_text_length: 11 }, chat: { typing_ttl_seconds: 12 } };

  test("a flag comes before the environment, the file and the default, and each value names its source", () => {
    const { config, sources } = loadConfig({
      flags: { PORT: "3" },
      env: { PORT: "2", CHAT_TYPING_TTL_SECONDS: "9" },
      file,
    });
    expect([config.PORT, sources.PORT]).toEqual([3, "flag"]);
    expect([config.CHAT_TYPING_TTL_SECONDS, sources.CHAT_TYPING_TTL_SECONDS]).toEqual([9, "environment"]);
    expect([config.CHAT_MAX_TEXT_LENGTH, sources.CHAT_MAX_TEXT_LENGTH]).toEqual([11, "file"]);
    expect([config.HOST, sources.HOST]).toEqual(["127.0.0.1", "default"]);
  });

  test("a TOML table can be the group or the beginning of the variable's name", () => {
    const { config } = loadConfig({
      file: { chat: { "max-text-length": 7 }, oauth: { google: { client_id: "a", client_secret: "b" } } },
    });
    expect(config.CHAT_MAX_TEXT_LENGTH).toBe(7);
    expect(config.OAUTH).toEqual({
      google: { issuer: "https://accounts.google.com", clientId: "a", clientSecret: "b" },
    });
  });

  test("an empty environment variable counts as not set", () => {
    expect(loadConfig({ env: { PORT: "", STOA_SECRET: "" } }).sources.PORT).toBe("default");
  });

  test("the same variable twice in one file is refused", () => {
    expect(problemsOf({ file: { PORT: 1, serve: { port: 2 } } })).toEqual([
      "PORT is set twice in the file, the second time as serve.port.",
    ]);
  });
});

describe("[11] values out of range prevent the start", () => {
  test.each([
    ["CHAT_MAX_TEXT_LENGTH", "0", '"0" (environment): must be an integer from 1 to 100000.'],
    ["WEBHOOK_BACKOFF_BASE_MS", "99", '"99" (environment): must be an integer from 100 to 3600000.'],
    ["RTC_TOKEN_DEFAULT_TTL_SECONDS", "21601", '"21601" (environment): must be an integer from 30 to 21600.'],
    ["PORT", "7000.5", '"7000.5" (environment): must be an integer from 0 to 65535.'],
    ["PORT", "0x10", '"0x10" (environment): must be an integer from 0 to 65535.'],
    ["USAGE_ENFORCE_LIMIT", "maybe", '"maybe" (environment): must be true or false.'],
    ["REGISTRATION", "opened", '"opened" (environment): must be one of first-user, open, closed.'],
    ["TRUSTED_PROXIES", "10.0.0.0/33", "(environment): must be a list of IP addresses or CIDR ranges"],
    // A region that the API would refuse when the node registers.
    ["SFU_REGION", "r".repeat(65), "(environment): must be 1 to 64 characters of"],
    ["SFU_NODE_NAME", "metrics", "(environment): must be 1 to 128 characters of"],
    ["PUBLIC_URL", "https://example.com/stoa", "(environment): must be an http or https address without a path"],
  ])("%s=%s", (name, value, message) => {
    const problems = problemsOf({ env: { [name]: value } });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toStartWith(`${name} = `);
    expect(problems[0]).toContain(message);
  });

  test("both ends of a range are accepted", () => {
    const { config } = loadConfig({ env: { WEBHOOK_BACKOFF_BASE_MS: "100", RTC_TOKEN_DEFAULT_TTL_SECONDS: "21600" } });
    expect([config.WEBHOOK_BACKOFF_BASE_MS, config.RTC_TOKEN_DEFAULT_TTL_SECONDS]).toEqual([100, 21_600]);
  });

  test("all problems are reported together, with their sources", () => {
    expect(problemsOf({ flags: { PORT: "x" }, file: { chat: { max_text_length: true } } })).toEqual([
      'PORT = "x" (flag --port): must be an integer from 0 to 65535.',
      "CHAT_MAX_TEXT_LENGTH = true (file chat.max_text_length): must be an integer from 1 to 100000.",
    ]);
  });

  test("the secret of media nodes contains only characters that a header can hold", () => {
    for (const value of ["a secret of more than sixteen", "schlüssel-von-zwanzig"]) {
      expect(problemsOf({ env: { SFU_REGISTRATION_SECRET: value } })).toEqual([
        "SFU_REGISTRATION_SECRET = [secret] (environment): must be 16 to 512 letters, digits or signs of ASCII, without spaces.",
      ]);
    }
    const { config } = loadConfig({ env: { SFU_REGISTRATION_SECRET: "x".repeat(16) } });
    expect(config.SFU_REGISTRATION_SECRET).toBe("x".repeat(16));
  });

  test("a secret is never printed, not even an invalid one", () => {
    const problems = problemsOf({ env: { STOA_SECRET: "hunter2", SMTP_URL: "http://user:pass@mail" } });
    expect(problems).toHaveLength(2);
    expect(problems.join()).not.toMatch(/hunter2|pass@/);
    expect(problems[0]).toBe("STOA_SECRET = [secret] (environment): must be 32 to 512 characters.");
  });

  test("settings that belong together are required together", () => {
    expect(problemsOf({ env: { TLS_CERT: "a.pem" } })).toEqual(["TLS_CERT is set, but TLS_KEY is not."]);
    expect(problemsOf({ env: { ADMIN_EMAIL: "a@b.c" } })).toEqual(["ADMIN_EMAIL is set, but ADMIN_PASSWORD is not."]);
    expect(problemsOf({ env: { OAUTH_ACME_CLIENT_ID: "a", OAUTH_ACME_CLIENT_SECRET: "b" } })).toEqual([
      "OAUTH_ACME_ISSUER is missing for the provider acme.",
    ]);
  });

  test("paths are absolute, from whichever source they come", () => {
    const { config } = loadConfig({
      flags: { RECORDING_DIR: "films" },
      env: { BACKUP_DIR: "/backups/", TLS_CERT: "../cert.pem", TLS_KEY: "./key.pem" },
      file: { acme_ca: "ca.pem", acme_directory: "https://ca.example.com", domain: "rtc.example.com" },
    });
    const { DATA_DIR, RECORDING_DIR, BACKUP_DIR, TLS_CERT, TLS_KEY, ACME_CA } = config;
    const here = process.cwd();
    expect({ DATA_DIR, RECORDING_DIR, BACKUP_DIR, TLS_CERT, TLS_KEY, ACME_CA }).toEqual({
      DATA_DIR: join(here, "stoa-data"),
      RECORDING_DIR: join(here, "films"),
      BACKUP_DIR: "/backups",
      TLS_CERT: join(here, "..", "cert.pem"),
      TLS_KEY: join(here, "key.pem"),
      ACME_CA: join(here, "ca.pem"),
    });
    const paths = VARIABLE_NAMES.filter((name) => /_DIR$|_CA$|^TLS_/.test(name));
    expect(paths.filter((name) => VARIABLES[name].type !== "path")).toEqual([]);
    expect(loadConfig({}).config.RECORDING_DIR).toBeUndefined();
  });

  test("every media worker must have a valid port", () => {
    const workers = (MEDIA_UDP_PORT: string) => problemsOf({ env: { MEDIA_UDP_PORT, MEDIA_WORKERS: "3" } });
    expect(workers("65533")).toEqual([]);
    expect(workers("0")).toEqual([]);
    expect(workers("65534")).toEqual(["MEDIA_UDP_PORT is too high for 3 MEDIA_WORKERS: the last would take 65536."]);
  });

  test("an issuer with plain http is accepted on loopback only", () => {
    const issuer = (OAUTH_ACME_ISSUER: string) =>
      problemsOf({ env: { OAUTH_ACME_ISSUER, OAUTH_ACME_CLIENT_ID: "a", OAUTH_ACME_CLIENT_SECRET: "b" } });
    for (const accepted of ["http://127.0.0.1:8080", "http://localhost", "http://[::1]:1", "https://id.example.com"]) {
      expect(issuer(accepted)).toEqual([]);
    }
    for (const refused of ["http://id.example.com", "http://127.0.0.1.example.com", "http://10.0.0.1"]) {
      expect(issuer(refused)).toEqual([expect.stringContaining("on loopback only")]);
    }
  });
});

describe("[11] names that do not exist prevent the start, and the nearest name is suggested", () => {
  test("unknown names in the environment prevent the start when they look like settings of Stoa", () => {
    expect(problemsOf({ env: { CHAT_MAX_TEXT_LENGHT: "5" } })).toEqual([
      "CHAT_MAX_TEXT_LENGHT (environment) is not a variable of Stoa. Did you mean CHAT_MAX_TEXT_LENGTH?",
    ]);
    expect(problemsOf({ env: { TRUSTED_PROXYS: "::1" } })[0]).toContain("Did you mean TRUSTED_PROXIES?");
    expect(problemsOf({ env: { SFU_NOTHING_OF_THE_KIND: "1" } })).toEqual([
      "SFU_NOTHING_OF_THE_KIND (environment) is not a variable of Stoa.",
    ]);
  });

  test("variables of other programs are ignored", () => {
    const env = {
      PATH: "/bin",
      HOSTNAME: "a",
      HTTP_URL: "b",
      AWS_REGION: "c",
      STOA_VERSION: "1.0.0",
      STOA_SERVICE_HOST: "10.0.0.1",
      CHAT_PORT_7000_TCP_ADDR: "10.0.0.1",
    };
    expect(problemsOf({ env })).toEqual([]);
  });

  test("unknown names in the file and among the flags prevent the start in any case", () => {
    expect(problemsOf({ file: { chat: { max_text_lenght: 5 } } })).toEqual([
      "chat.max_text_lenght (file) is not a variable of Stoa. Did you mean CHAT_MAX_TEXT_LENGTH?",
    ]);
    expect(problemsOf({ flags: { PROT: "5" } })).toEqual([
      "--prot (flag) is not a variable of Stoa. Did you mean PORT?",
    ]);
  });
});

test("testConfig accepts typed overrides and uses free ports and no log", () => {
  const config = testConfig({ CHAT_MAX_TEXT_LENGTH: 3, TRUSTED_PROXIES: ["::1"] });
  expect([config.PORT, config.MEDIA_UDP_PORT, config.LOG_LEVEL, config.CHAT_MAX_TEXT_LENGTH]).toEqual([
    0,
    0,
    "silent",
    3,
  ]);
  expect(() => testConfig({ CHAT_MAX_TEXT_LENGTH: 0 })).toThrow(ConfigError);
});

test("[11] every setting is recognised with one or two wrong letters", () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...VARIABLE_NAMES.filter((name) => name.length >= 12)),
      fc.array(fc.tuple(fc.nat(), fc.constantFrom("swap", "drop", "replace")), { minLength: 1, maxLength: 2 }),
      (name, edits) => {
        const misspelt = edits.reduce<string>((text, [at, kind]) => misspell(text, at % text.length, kind), name);
        fc.pre(!isKnown(misspelt) && misspelt.length >= 12 && editDistance(name, misspelt) <= 2);
        expect(looksLikeOurs(misspelt) || /_PORT$/.test(misspelt)).toBe(true);
      },
    ),
    { numRuns: 500 },
  );
});

function misspell(text: string, at: number, kind: string): string {
  const [before, letter = "", after] = [text.slice(0, at), text[at], text.slice(at + 1)];
  if (kind === "drop") return before + after;
  return kind === "replace" ? `${before}X${after}` : before + after.slice(0, 1) + letter + after.slice(1);
}
