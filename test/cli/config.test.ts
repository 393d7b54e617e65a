import { expect, test } from "bun:test";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VARIABLE_NAMES } from "../../src/kernel/config/index.ts";
import { stoa } from "./stoa.ts";

test("[11] config check accepts a valid configuration and exits 2 for an invalid one", async () => {
  expect(await stoa(["config", "check"])).toEqual({ code: 0, out: "The configuration is valid.\n", err: "" });
  const wrong = await stoa(["config", "check", "--port", "70000"], { env: { CHAT_MAX_TEXT_LENGHT: "1" } });
  expect(wrong.code).toBe(2);
  expect(wrong.out).toBe("");
  expect(wrong.err).toContain('PORT = "70000" (flag --port): must be an integer from 0 to 65535.');
  expect(wrong.err).toContain("Did you mean CHAT_MAX_TEXT_LENGTH?");
});

test("[11] an unknown flag exits 2 and names the nearest", async () => {
  const { code, err } = await stoa(["config", "check", "--chat-max-text-lenght", "5"]);
  expect(code).toBe(2);
  expect(err).toContain("Did you mean --chat-max-text-length?");
  const beside = await stoa(["config", "check", "--port", "1", "--chat-max-text-lenght", "5"]);
  expect(beside).toEqual({ code: 2, out: "", err });
});

test("[11] help lists every flag, whichever are given", async () => {
  const [alone, beside] = [await stoa(["serve", "--help"]), await stoa(["serve", "--port", "1", "--help"])];
  expect(alone.out).toContain("--chat-max-text-length");
  expect(beside).toEqual(alone);
  expect(await stoa(["help", "serve"])).toEqual(alone);
});

test("[11] config print shows every variable, its source, and no secret", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "stoa-config-")), "stoa.toml");
  writeFileSync(file, "[limits]\nchat_max_text_length = 17\n[rate_limit]\nauth_login = 18\n");
  const secret = "0123456789abcdef0123456789abcdef";
  const { code, out } = await stoa(
    [
      "config",
      "print",
      "--sources",
      "--json",
      "--config",
      file,
      "--usage-enforce-limit",
      "--trusted-proxies",
      "::1,10.0.0.0/8",
    ],
    { env: { STOA_SECRET: secret, OAUTH_GITHUB_CLIENT_ID: "id", OAUTH_GITHUB_CLIENT_SECRET: "s3cret" } },
  );
  expect(code).toBe(0);
  const printed = JSON.parse(out);
  expect(Object.keys(printed)).toEqual([...VARIABLE_NAMES, "OAUTH"]);
  expect(printed.CHAT_MAX_TEXT_LENGTH).toEqual({ value: 17, source: "file" });
  expect(printed.RATE_LIMIT_AUTH_LOGIN).toEqual({ value: 18, source: "file" });
  expect(printed.USAGE_ENFORCE_LIMIT).toEqual({ value: true, source: "flag" });
  expect(printed.TRUSTED_PROXIES).toEqual({ value: ["::1", "10.0.0.0/8"], source: "flag" });
  expect(printed.STOA_SECRET).toEqual({ value: "[secret]", source: "environment" });
  expect(printed.PORT).toEqual({ value: 7000, source: "default" });
  expect(printed.OAUTH).toEqual(["github"]);
  expect(out).not.toContain(secret);
  expect(out).not.toContain("s3cret");
});

test("[11] a file that is missing or not TOML exits 2", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "stoa-config-")), "stoa.toml");
  expect((await stoa(["config", "check", "--config", file])).err).toContain(`cannot read ${file}`);
  writeFileSync(file, "port = = 1");
  const { code, err } = await stoa(["config", "check", "--config", file]);
  expect([code, err.includes(`cannot read ${file}: line 1: `)]).toEqual([2, true]);
  writeFileSync(file, 'port = 7000\nhost = """\n127.0.0.1"""\n\n[chat]\nmax_text_length = "10\n');
  expect((await stoa(["config", "check", "--config", file])).err).toContain(`cannot read ${file}: line 6: `);
});

test("[11] a provider with a name of the operator's choice can be given by flags", async () => {
  const { out } = await stoa([
    "config",
    "print",
    "--json",
    "--oauth-acme-issuer",
    "https://id.example.com",
    "--oauth-acme-client-id=a",
    "--oauth-acme-client-secret=b",
  ]);
  expect(JSON.parse(out).OAUTH).toEqual(["acme"]);
});

test("[11] `version` prints the version, and an unknown command exits 2", async () => {
  const version = await stoa(["version", "--json"]);
  expect(JSON.parse(version.out).version).toMatch(/^\d+\.\d+\.\d+/);
  const unknown = await stoa(["sevre"]);
  expect([unknown.code, unknown.out]).toEqual([2, ""]);
});

test("[contract 16] config check reports a missing certificate", async () => {
  const { code, err } = await stoa(["config", "check", "--tls-cert", "/nowhere/c.pem", "--tls-key", "/nowhere/k.pem"]);
  expect([code, err]).toEqual([2, expect.stringContaining("/nowhere/c.pem cannot be read")]);
});
