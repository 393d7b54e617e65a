import { useState } from "preact/hooks";
import { api, ask } from "../../api.ts";
import { useLive } from "../../live.ts";
import { FormProblem, useSubmit } from "../../parts/form.tsx";
import { EmailField, PasswordField } from "../../parts/frame/credentials.tsx";
import { Gate } from "../../parts/frame/gate.tsx";
import { Providers } from "../../parts/frame/providers.tsx";
import { Shown } from "../../parts/states.tsx";
import { adoptSession } from "../../session.ts";
import { Register } from "./register.tsx";

/** Signing in; an empty server greets with the account that will run it. */
export function SignIn() {
  const registration = useLive(() => ask(api.v1.auth.registration.get()), [], 0);
  const [joining, setJoining] = useState(false);
  if (registration.data === null) {
    return (
      <Gate title="Stoa">
        <Shown live={registration}>{() => null}</Shown>
      </Gate>
    );
  }
  const { open, firstAccount, providers } = registration.data;
  if (open && (firstAccount || joining)) {
    return <Register first={firstAccount} providers={providers} onBack={() => setJoining(false)} />;
  }
  return (
    <Gate title="Sign in">
      <SignInForm />
      <Providers names={providers} />
      <p class="row small">
        <a href="/password-reset">Forgot your password?</a>
        {open && (
          <button type="button" class="link" onClick={() => setJoining(true)}>
            Create an account
          </button>
        )}
      </p>
    </Gate>
  );
}

export function SignInForm() {
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [resent, setResent] = useState(false);
  const form = useSubmit(async () => adoptSession(await ask(api.v1.auth.login.post({ email, password }))));
  const resend = useSubmit(async () => {
    await ask(api.v1.auth["verify-email"].resend.post({ email }));
    setResent(true);
  });
  return (
    <form class="stack" onSubmit={form.onSubmit}>
      <EmailField form={form} value={email} onValue={setEmail} />
      <PasswordField form={form} label="Password" value={password} onValue={setPassword} />
      <FormProblem form={form} />
      {form.failure?.code === "SVC_EMAIL_NOT_VERIFIED" && (
        <button type="button" class="button" disabled={resend.busy || resent} onClick={resend.onSubmit}>
          {resent ? "Sent. Look into your mail." : "Send the confirmation again"}
        </button>
      )}
      <button type="submit" class="button primary" disabled={form.busy}>
        Sign in
      </button>
    </form>
  );
}
