import { expect, test } from "bun:test";
import { createLog, loggedPath, pathOf } from "../../src/kernel/log.ts";

function lines(format: "json" | "pretty", speak: (log: ReturnType<typeof createLog>) => void): string[] {
  const out: string[] = [];
  speak(createLog({ level: "info", format, write: (line) => out.push(line) }));
  return out;
}

test("secrets are redacted at every nesting depth that the code uses", () => {
  for (const format of ["json", "pretty"] as const) {
    const [line = ""] = lines(format, (log) =>
      log.info({
        token: "s3cret",
        body: { password: "s3cret", user: { accessToken: "s3cret" } },
        headers: { authorization: "Bearer s3cret", cookie: "stoa_refresh=s3cret" },
      }),
    );
    expect(line).not.toContain("s3cret");
    expect(line).toContain("[redacted]");
  }
});

test("a caller's text cannot start a new line in the log", () => {
  for (const format of ["json", "pretty"] as const) {
    const [line = ""] = lines(format, (log) =>
      log.info({ agent: 'x\n{"level":"error","msg":"forged"}' }, "hello\nworld"),
    );
    expect(line.trimEnd().split("\n")).toHaveLength(1);
  }
});

test("the path of a URL has no query and no fragment", () => {
  expect(pathOf("http://localhost:7000/v1/rtc?token=s3cret")).toBe("/v1/rtc");
  expect(pathOf("http://localhost/a#b?c")).toBe("/a");
  expect(pathOf("http://localhost")).toBe("/");
});

test("a secret in a path is redacted in the log", () => {
  const secret = "s3cret_-".padEnd(43, "x");
  expect(loggedPath(`http://localhost/v1/invitations/${secret}/accept?a=b`)).toBe("/v1/invitations/[redacted]/accept");
  expect(loggedPath(`http://localhost/v1/invitations/${secret}`)).toBe("/v1/invitations/[redacted]");
  const token = `eyJhbGciOiJIUzI1NiJ9.${secret}.${secret}`;
  expect(loggedPath(`http://localhost/w/${token}`)).toBe("/w/[redacted]");
  expect(loggedPath(`http://localhost/w/${secret.replace("a", "%61")}/x`)).toBe("/w/[redacted]/x");
  expect(loggedPath("http://localhost/v1/projects/0195f0c4-5a3e-7bbb-8000-0123456789ab")).toContain("0195f0c4");
});
