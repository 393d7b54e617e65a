import { browserSupportsWebAuthn, startAuthentication } from "@simplewebauthn/browser";
import { useState } from "preact/hooks";
import { api, request } from "../../api.ts";
import { usePolling } from "../../live.ts";
import { FormProblem, SubmitButton, useSubmit } from "../../parts/form.tsx";
import { EmailField, PasswordField } from "../../parts/frame/credentials.tsx";
import { Providers } from "../../parts/frame/providers.tsx";
import { SignedOutPage } from "../../parts/frame/signed-out-page.tsx";
import { Loaded } from "../../parts/states.tsx";
import { adoptSession } from "../../session.ts";
import { Register } from "./register.tsx";

/** The sign-in page; on an empty server it creates the operator account. */
export function SignIn() {
  const registration = usePolling(() => request(api.v1.auth.registration.get()), [], 0);
  const [joining, setJoining] = useState(false);
  if (registration.data === null) {
    return (
      <SignedOutPage title="Stoa">
        <Loaded live={registration}>{() => null}</Loaded>
      </SignedOutPage>
    );
  }
  const { open, firstAccount, providers } = registration.data;
  if (open && (firstAccount || joining)) {
    return <Register first={firstAccount} providers={providers} onBack={() => setJoining(false)} />;
  }
  return (
    <SignedOutPage title="Sign in">
      <SignInForm />
      <PasskeySignIn />
      <Providers names={providers} />
      <p class="row small">
        <a href="/password-reset">Forgot your password?</a>
        {open && (
          <button type="button" class="link" onClick={() => setJoining(true)}>
            Create an account
          </button>
        )}
      </p>
    </SignedOutPage>
  );
}

function PasskeySignIn() {
  const form = useSubmit(async () => {
    const { options } = await request(api.v1.auth.passkey.start.post());
    const response = await startAuthentication({ optionsJSON: options as never });
    adoptSession(await request(api.v1.auth.passkey.post({ response: { ...response } })));
  });
  if (!browserSupportsWebAuthn()) return null;
  return (
    <form class="stack" onSubmit={form.onSubmit}>
      <FormProblem form={form} />
      <button type="submit" class="button" disabled={form.busy}>
        Sign in with a passkey
      </button>
    </form>
  );
}

export function SignInForm() {
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [resent, setResent] = useState(false);
  const form = useSubmit(async () => adoptSession(await request(api.v1.auth.login.post({ email, password }))));
  const resend = useSubmit(async () => {
    await request(api.v1.auth["verify-email"].resend.post({ email }));
    setResent(true);
  });
  return (
    <form class="stack" onSubmit={form.onSubmit}>
      <EmailField form={form} value={email} onValue={setEmail} />
      <PasswordField form={form} label="Password" value={password} onValue={setPassword} />
      <FormProblem form={form} />
      {form.failure?.code === "SVC_EMAIL_NOT_VERIFIED" && (
        <button type="button" class="button" disabled={resend.busy || resent} onClick={resend.onSubmit}>
          {resent ? "Sent. Check your mail." : "Send the confirmation again"}
        </button>
      )}
      <SubmitButton form={form}>Sign in</SubmitButton>
    </form>
  );
}
