import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { type MailServer, mailServer } from "../../harness/mail.ts";
import { OIDC_CLIENT, type OidcServer, oidcServer } from "../../harness/oidc.ts";
import { HOSTILE } from "./hostile.ts";
import { examine } from "./screenshots.ts";
import { openStage, type Stage } from "./stage.ts";

const PASSWORD = "correct horse battery";
let post: MailServer;
let acme: OidcServer;
let stage: Stage;
let page: Page;
let complaints: string[];
beforeAll(async () => {
  post = await mailServer();
  const redirectUris: string[] = [];
  acme = await oidcServer(redirectUris);
  acme.people.set("ada", { email: "ada@acme.example", email_verified: true, name: `Ada ${HOSTILE}` });
  acme.people.set("liar", { email: "owner@example.com", email_verified: false, name: "Mallory" });
  stage = await openStage({
    SMTP_URL: post.url,
    MAIL_FROM: "Stoa <stoa@rtc.example>",
    REGISTRATION: "open",
    OAUTH: { acme: { issuer: acme.issuer, ...OIDC_CLIENT } },
  });
  redirectUris.push(`${stage.server.url}/oauth/acme/callback`);
}, 180_000);
afterAll(async () => {
  await stage?.close();
  await acme?.close();
  await post?.close();
});
afterEach(async () => {
  expect(await page.evaluate(() => "hacked" in window)).toBe(false);
  expect(complaints).toEqual([]);
  await page.context().close();
});

/** Opens a page of the dashboard in a browser without a session. */
async function arrive(path: string): Promise<void> {
  ({ page, complaints } = await stage.stranger());
  await open(path);
}

/** Loads a blank page first, because a change of the fragment alone does not reload a page. */
async function open(path: string): Promise<void> {
  await page.goto("about:blank");
  await page.goto(`${stage.server.url}${path}`);
}

/** The path of the link in the newest mail to an address. Its origin is the configured one, which lacks the port here. */
async function linkTo(email: string): Promise<string> {
  await stage.server.services.mailer.drain();
  const mail = post.mails.findLast(({ to }) => to === email);
  if (!mail) throw new Error(`no mail to ${email}`);
  const { pathname, hash } = new URL(mail.link);
  return pathname + hash;
}

const button = (name: string) => page.getByRole("button", { name, exact: true });
const heading = (name: string) => page.getByRole("heading", { name, exact: true });
const fill = (label: string, text: string) => page.getByLabel(label, { exact: true }).fill(text);
const tokenless = async () => {
  expect(page.url()).not.toContain("token");
  expect(await page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }]))).not.toContain(
    "token",
  );
};

async function register(email: string): Promise<void> {
  await arrive("/");
  await button("Create an account").click();
  await fill("E-mail address", email);
  await fill("Your name", HOSTILE);
  await fill("Password", PASSWORD);
  await button("Create the account").click();
  await page.getByText("open the link in the mail").waitFor();
}

describe("[5] the link that confirms an e-mail address", () => {
  test("signs the user in once, and nobody can sign in before", async () => {
    await register("new@example.com");
    await examine(page, "register-waiting");
    await open("/");
    await button("Sign in").waitFor();
    await examine(page, "sign-in");
    await fill("E-mail address", "new@example.com");
    await fill("Password", PASSWORD);
    await button("Sign in").click();
    await page.getByText("Verify the e-mail address first.").waitFor();
    const first = await linkTo("new@example.com");
    await button("Send the confirmation again").click();
    await button("Sent. Check your mail.").waitFor();
    const link = await linkTo("new@example.com");
    expect(link).not.toBe(first);

    await open(link);
    await heading("Projects").waitFor();
    await heading("Create your first project").waitFor();
    // The page says whose password it is and how to lock out someone else who registered the address.
    await page.getByText("The password is the one that was chosen at registration.").waitFor();
    await page.getByRole("link", { name: "Choose a new password" }).waitFor();
    await tokenless();
    await examine(page, "first-project");

    await open(link);
    await page.getByRole("alert").getByText("invalid, expired or was used already").waitFor();
    await examine(page, "verify-email-used");
    await page.getByRole("link", { name: "Go to your projects" }).click();
    await heading("Projects").waitFor();
  }, 180_000);

  test("says that it is incomplete without its token", async () => {
    await arrive("/verify-email");
    await page.getByText("This link is incomplete").waitFor();
  }, 180_000);
});

describe("[5] a forgotten password", () => {
  test("is replaced through the mail, which ends every other session", async () => {
    await register("grace@example.com");
    await open(await linkTo("grace@example.com"));
    await heading("Projects").waitFor();
    const elsewhere = page;
    const mails = post.mails.length;

    await arrive("/");
    await page.getByRole("link", { name: "Forgot your password?" }).click();
    await heading("Choose a new password").waitFor();
    await examine(page, "password-reset");
    await fill("E-mail address", "nobody@example.com");
    await button("Send me a link").click();
    await page.getByText("If there is an account for nobody@example.com").waitFor();
    await stage.server.services.mailer.drain();
    expect(post.mails.length).toBe(mails);

    await open("/password-reset");
    await fill("E-mail address", "grace@example.com");
    await button("Send me a link").click();
    await page.getByText("If there is an account for grace@example.com").waitFor();
    await examine(page, "password-reset-sent");
    const link = await linkTo("grace@example.com");
    await open(link);
    await fill("New password", "too short");
    await button("Save and sign in").click();
    await heading("Choose a new password").waitFor();
    await examine(page, "password-reset-new");
    await fill("New password", "another horse battery");
    await button("Save and sign in").click();
    await heading("Projects").waitFor();
    await tokenless();

    await elsewhere.reload();
    await elsewhere.getByRole("heading", { name: "Sign in" }).waitFor();
    await elsewhere.getByLabel("E-mail address").fill("grace@example.com");
    await elsewhere.getByLabel("Password").fill(PASSWORD);
    await elsewhere.getByRole("button", { name: "Sign in", exact: true }).click();
    await elsewhere.getByRole("alert").getByText("req_").waitFor();
    await elsewhere.context().close();

    await open(link);
    await fill("New password", "a third horse battery");
    await button("Save and sign in").click();
    await page.getByText("invalid, expired or was used already").waitFor();
  }, 180_000);
});

describe("[5] an invitation", () => {
  async function invite(email: string): Promise<string> {
    const { runtime, services, projectId } = stage.server;
    const author = {
      actor: { type: "user" as const, id: "0", email: "owner@example.com" },
      request: null,
      environment: "DEVELOPMENT" as const,
    };
    await runtime.write((unit) =>
      services.invitations.addByEmail(unit, projectId, { email, role: "DEVELOPER" }, "OWNER", author),
    );
    return linkTo(email);
  }

  test("is accepted with a new account, whose address needs no further confirmation", async () => {
    const link = await invite("katherine@example.com");
    await arrive(link);
    await page.getByText("owner@example.com invites katherine@example.com to the project test").waitFor();
    await tokenless();
    await examine(page, "invitation");
    await fill("Password", PASSWORD);
    await button("Create the account").click();
    await heading("Projects").waitFor();
    await page.getByRole("link", { name: "test Developer" }).click();
    await heading("test").waitFor();
    await open(link);
    await page.getByRole("alert").getByText("invalid, expired or was used already").waitFor();
  }, 180_000);

  test("is accepted with an existing account after signing in", async () => {
    await register("edsger@example.com");
    await open(await linkTo("edsger@example.com"));
    await heading("Projects").waitFor();
    await button("Sign out").first().click();
    await open(await invite("someone.else@example.com"));
    await button("I have an account").click();
    await fill("E-mail address", "edsger@example.com");
    await fill("Password", PASSWORD);
    await button("Sign in").click();
    await page.getByText("You are signed in as edsger@example.com").waitFor();
    await examine(page, "invitation-signed-in");
    await button("Accept").click();
    await heading("test").waitFor();
    expect(page.url()).toContain(`/projects/${stage.server.projectId}`);
  }, 180_000);

  test("survives the redirect to a provider and back", async () => {
    acme.people.set("radia", { email: "radia@acme.example", email_verified: true, name: "Radia" });
    acme.seat("radia");
    await arrive(await invite("radia@example.com"));
    await button("Continue with Acme").click();
    await heading("Projects").waitFor();
    await page.getByRole("link", { name: "test Developer" }).waitFor();
    await tokenless();
  }, 180_000);
});

describe("[5] a provider", () => {
  test("signs a new user in, and into the same account the next time", async () => {
    acme.seat("ada");
    for (const visit of ["first", "second"]) {
      await arrive("/");
      await button("Continue with Acme").click();
      await heading("Projects").waitFor();
      expect([visit, new URL(page.url()).search]).toEqual([visit, ""]);
      await page.locator(".who").getByText(`Ada ${HOSTILE}`).waitFor();
      if (visit === "first") await page.context().close();
    }
    const ada = stage.server.services.users.findByEmail("ada@acme.example");
    expect(ada?.isOperator).toBe(false);
  }, 180_000);

  test("does not sign into the account of an address that it has not verified", async () => {
    acme.seat("liar");
    await arrive("/");
    await button("Continue with Acme").click();
    await page.getByRole("alert").waitFor();
    await examine(page, "oauth-refused");
    await page.getByRole("link", { name: "Go to sign in" }).click();
    await heading("Sign in").waitFor();
  }, 180_000);

  test("is quoted as plain text when it refuses", async () => {
    await arrive(`/oauth/acme/callback?error=access_denied&error_description=${encodeURIComponent(HOSTILE)}`);
    await page.getByRole("alert").getByText(HOSTILE).waitFor();
    expect(new URL(page.url()).search).toBe("");
  }, 180_000);

  test("signs nobody in by a callback that was not requested", async () => {
    await arrive("/oauth/acme/callback?code=stolen&state=somebodys");
    await page.getByRole("alert").getByText("The sign-in with this provider failed").waitFor();
    await page.getByRole("link", { name: "Go to sign in" }).click();
    await heading("Sign in").waitFor();
  }, 180_000);
});
