import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { encode } from "uqr";
import { totpCode, totpStep } from "../../../src/features/accounts/second-factor/totp.ts";
import { secretOf } from "../../harness/authenticator.ts";
import { openStage, type Stage } from "./stage.ts";

const PASSWORD = "correct horse battery";
let stage: Stage;
beforeAll(async () => {
  stage = await openStage({ REGISTRATION: "open" });
}, 180_000);
afterAll(() => stage?.close());

/** WebAuthn takes a name, not an address. */
const address = (path: string) => `http://localhost:${new URL(stage.server.url).port}${path}`;

/** A browser with a device of its own that holds passkeys and asks its owner. */
async function arrive(): Promise<{ page: Page; complaints: string[] }> {
  const { page, complaints } = await stage.stranger();
  const devices = await page.context().newCDPSession(page);
  await devices.send("WebAuthn.enable");
  await devices.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2",
      transport: "internal",
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
  return { page, complaints };
}

async function register(page: Page, email: string): Promise<void> {
  const { status } = await fetch(`${stage.server.url}/v1/auth/register`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ email, password: PASSWORD }),
  });
  expect(status).toBe(201);
  await signIn(page, email);
}
async function signIn(page: Page, email: string): Promise<void> {
  await page.goto(address("/account"));
  await page.getByLabel("E-mail address").fill(email);
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
}
const signOut = (page: Page) => page.getByRole("button", { name: "Sign out", exact: true }).first().click();

test("a passkey is added, confirms a sign-in with the password, and signs in by itself", async () => {
  const { page, complaints } = await arrive();
  await register(page, "passkey@example.com");
  await page.getByLabel("Your password").fill(PASSWORD);
  await page.getByRole("button", { name: "Add a passkey" }).click();
  await page.getByRole("heading", { name: "Recovery codes" }).waitFor();
  expect((await page.locator("pre").innerText()).split("\n")).toHaveLength(10);
  await page.getByRole("button", { name: "I have kept them" }).click();
  await page.getByText("Passkey of Chrome").waitFor();

  await signOut(page);
  await signIn(page, "passkey@example.com");
  await page.getByRole("heading", { name: "Confirm that it is you" }).waitFor();
  // A reload does not get around it.
  await page.reload();
  await page.getByRole("button", { name: "Use a passkey" }).click();
  await page.getByRole("heading", { name: "Your account" }).waitFor();

  await signOut(page);
  await page.getByRole("button", { name: "Sign in with a passkey" }).click();
  await page.getByRole("heading", { name: "Your account" }).waitFor();
  await page.getByLabel("Your password").fill(PASSWORD);
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await page.getByText("The passkey was removed.").waitFor();
  expect(complaints).toEqual([]);
  await page.context().close();
}, 120_000);

test("an authenticator app is set up, and its code or a recovery code is asked for", async () => {
  const { page, complaints } = await arrive();
  await register(page, "codes@example.com");
  await page.getByLabel("Your password").fill(PASSWORD);
  await page.getByRole("button", { name: "Set up an authenticator app" }).click();
  const uri = (await page.getByRole("link", { name: "this link" }).getAttribute("href")) ?? "";
  const modules = await page.getByRole("img", { name: "QR code" }).locator("path").getAttribute("d");
  const dark = encode(uri).data.flat().filter(Boolean);
  expect([modules?.split("M").length, dark.length > 300]).toEqual([dark.length + 1, true]);
  const secret = secretOf(new URL(uri).searchParams.get("secret") ?? "");
  await page.getByLabel("Code", { exact: true }).fill(totpCode(secret, totpStep(Date.now())));
  await page.getByRole("button", { name: "Confirm" }).click();
  const [recovery = ""] = (await page.locator("pre").innerText()).split("\n");
  await page.getByRole("button", { name: "I have kept them" }).click();

  await signOut(page);
  await signIn(page, "codes@example.com");
  await page.getByLabel("Code").fill("000000");
  await page.getByRole("button", { name: "Confirm" }).click();
  await page.getByText("The code or passkey is not valid.").waitFor();
  await page.getByLabel("Code").fill(recovery);
  await page.getByRole("button", { name: "Confirm" }).click();
  await page.getByText("9 recovery codes are left.").waitFor();
  expect(complaints).toEqual([]);
  await page.context().close();
}, 120_000);
