"""Tables by which `redaction` recognizes secrets: words of names, and shapes of values.

In names, as in English compounds, the last word is the kind: `pad_token` is a token, `token_range` is a range,
`auth_mode` is a mode. The words before it qualify it: `api_key` is a secret, `sort_key` is not.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """A pattern of secrets, independent of names. If the pattern has a named group, only the group is redacted.

    `needles` are lower-case strings of which every match contains one, as a fast filter.
    """

    name: str
    pattern: re.Pattern[str]
    needles: tuple[str, ...]
    source: str


_DETECT = "detect-secrets 1.5.0 (Yelp, Apache 2.0), plugins"
_MAKER = "documentation of the service"


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


def _shape(name: str, needles: str, pattern: str, source: str = _MAKER, flags: int = 0) -> Shape:
    return Shape(name, re.compile(pattern, flags), tuple(needles.split("|")), source)


_ANY_CASE = re.IGNORECASE

SHAPES = (
    _shape("private key", "private key",
           r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?:.|\n)*?(?:-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|\Z)", _DETECT),
    _shape("PuTTY key", "putty-user", r"PuTTY-User-Key-File-\d(?:.|\n)*", _DETECT),
    _shape("AWS key", "a3t|abia|acca|akia|asia",
           r"(?<![A-Za-z0-9])(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{12,}", _DETECT),
    _shape("Azure storage key", "accountkey", r"AccountKey=(?P<secret>[A-Za-z0-9+/=]+)", _DETECT, _ANY_CASE),
    _shape("Artifactory token", "akc", r"\bAKC[A-Za-z0-9]{30,}", _DETECT),
    _shape("Discord bot token", ".", r"[MNO][A-Za-z\d_-]{23,25}\.[A-Za-z\d_-]{6}\.[A-Za-z\d_-]{27,}", _DETECT),
    _shape("GitHub token", "ghp_|gho_|ghu_|ghs_|ghr_|github_pat_",
           r"\b(?:gh[pousr]_[A-Za-z0-9_]{12,}|github_pat_[A-Za-z0-9_]{12,})", _DETECT),
    _shape("GitLab token", "glpat-|gldt-|glft-|glsoat-|glrt-|glcbt-|glimt-|glptt-|glagent-|gloas-",
           r"\b(?:glpat|gldt|glft|glsoat|glrt|glcbt|glimt|glptt|glagent|gloas)-[A-Za-z0-9_-]{12,}",
           _DETECT),
    _shape("GitLab runner token", "gr1348941", r"\bGR1348941[A-Za-z0-9_-]{20,}", _DETECT),
    _shape("JSON web token", "eyj", r"\beyJ[A-Za-z0-9_=-]{8,}(?:\.[A-Za-z0-9_.+/=-]*)?", _DETECT),
    _shape("Mailchimp key", "-us", r"\b[0-9a-z]{32}-us\d{1,2}\b", _DETECT),
    _shape("Mailgun key", "key-", r"\bkey-[0-9a-f]{32}\b"),
    _shape("npm token", "_authtoken|npm_", r"_authToken\s*=\s*(?P<secret>\S+)|\bnpm_[A-Za-z0-9]{12,}", _DETECT),
    _shape("OpenAI or Anthropic key", "sk-", r"\bsk-[A-Za-z0-9_-]{12,}", _DETECT),
    _shape("PyPI token", "pypi-", r"\bpypi-[A-Za-z0-9_-]{12,}", _DETECT),
    _shape("SendGrid key", "sg.", r"\bSG\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)?", _DETECT),
    _shape("Slack token", "xox|xapp-", r"\bxox[a-z]-[A-Za-z0-9-]{8,}|\bxapp-[A-Za-z0-9-]{8,}", _DETECT, _ANY_CASE),
    _shape("Square token", "sq0", r"\bsq0(?:csp|atp)-[A-Za-z0-9_-]{12,}", _DETECT),
    _shape("Stripe key", "_live_|_test_|whsec_",
           r"\b[rsp]k_(?:live|test)_[A-Za-z0-9]{10,}|\bwhsec_[A-Za-z0-9]{10,}", _DETECT),
    _shape("Telegram bot token", ":", r"\b\d{8,10}:[A-Za-z0-9_-]{30,}", _DETECT),
    _shape("Twilio key", "ac|sk", r"\b(?:AC|SK)[a-z0-9]{32}\b", _DETECT),
    _shape("Hugging Face token", "hf_|api_org_", r"\b(?:hf|api_org)_[A-Za-z0-9]{12,}"),
    _shape("Docker Hub token", "dckr_", r"\bdckr_[a-z]+_[A-Za-z0-9_-]{8,}"),
    _shape("Google key", "aiza|ya29.|gocspx-",
           r"\bAIza[A-Za-z0-9_-]{20,}|\bya29\.[A-Za-z0-9_-]{8,}|\bGOCSPX-[A-Za-z0-9_-]{8,}"),
    _shape("Groq, Replicate, xAI or NVIDIA key", "gsk|r8|xai|pplx|fw|csk|tgp_v1|nvapi-",
           r"\b(?:gsk|r8|xai|pplx|fw|csk|tgp_v1)[_-][A-Za-z0-9]{20,}|\bnvapi-[A-Za-z0-9_-]{20,}"),
    _shape("Vault token", "hvs.|hvb.|hvr.", r"\b(?:hvs|hvb|hvr)\.[A-Za-z0-9_-]{12,}"),
    _shape("Databricks token", "dapi", r"\bdapi[0-9a-f]{20,}"),
    _shape("DigitalOcean token", "_v1_", r"\bdo[opr]_v1_[0-9a-f]{20,}"),
    _shape("Grafana, Linear, Notion or Figma token",
           "glsa_|glc_|lin_api_|ntn_|figd_|shpat_|rubygems_|sntry|dp.pt.|atlasv1.|pmak-|nrak-|atatt|"
           "atctt|atbb",
           r"\b(?:glsa_|glc_|lin_api_|ntn_|figd_|shpat_|rubygems_|sntrys_|sntryu_|dp\.pt\.|atlasv1\.|PMAK-|"
           r"NRAK-|ATATT|ATCTT|ATBB)[A-Za-z0-9_=.-]{12,}"),
    _shape("Alibaba, Tencent or Volcengine key", "ltai|akid|aklt", r"\b(?:LTAI|AKID|AKLT)[A-Za-z0-9]{12,}"),
    _shape("age key", "age-secret", r"\bAGE-SECRET-KEY-[A-Z0-9]{12,}"),
    _shape("webhook", "hook|telegram|ftqq|googleapis|ifttt|day.app|hc-ping",
           r"(?:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks|"
           r"open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook|webhook\.office\.com|"
           r"chat\.googleapis\.com/v1/spaces|hooks\.zapier\.com/hooks|api\.telegram\.org|sctapi\.ftqq\.com|"
           r"outlook\.office\.com/webhook|maker\.ifttt\.com/trigger|api\.day\.app|hc-ping\.com)"
           r"/(?P<secret>[^\s\"'<>]+)", _DETECT, _ANY_CASE),
    _shape("HTTP credentials", "bearer|basic|digest|apikey|negotiate",
           r"\bBearer\s+(?P<bearer>[A-Za-z0-9+/=._~-]{6,})|\b(?i:bearer|basic|digest|apikey|negotiate)\s+(?P<secret>(?=[^\s\"']*[0-9A-Z=._~+/])[A-Za-z0-9+/=._~-]{8,})"),
    _shape("shadow password", "$", r"\$(?:1|2[abxy]?|5|6|y|argon2id?|pbkdf2[\w-]*|apr1)\$[A-Za-z0-9./+$=,-]{8,}"),
)  # fmt: skip
"""Patterns of detect-secrets (https://github.com/Yelp/detect-secrets, Copyright Yelp Inc., Apache License 2.0) with
shorter minimum lengths, because an incomplete token is a secret too. The package itself is not required."""

CERTAIN = words(
    "password passwords passwd passphrase passphrases passcode passcodes pwd pswd passwort contrasena contraseña "
    "secret secrets credential credentials cred creds cookie cookies authorization bearer jwt "
    "webhook webhooks dsn otp "
    "totp mnemonic psk netrc kubeconfig htpasswd kennwort senha clave passe mima miyao "
    "dockerconfigjson pin userpass htaccess pgpass "
    "密码 口令 密钥 令牌 凭证 凭据 秘钥 私钥 пароль"
)
"""Words that make a name secret at any position, except before one of `MEASURES`."""

LIKELY = words(
    "token tokens key keys pass auth auths oauth authentication session sessions license licence "
    "signature sig pw ak sk pat sas hmac "
    "fernet nonce salt pem rsa csrf xsrf sid sessid sessionid keytab keystore jks pfx"
)
"""Words that make a name secret as the last word, except after words in `HARMLESS_BEFORE`. Values that are small
numbers, special tokens or names of licenses are not secret."""

SECRET_BEFORE = words(
    "api access private priv secret ssh login encryption encrypt decryption decrypt account signing "
    "sign client master "
    "license licence wandb swanlab comet neptune clearml mlflow openai anthropic claude gemini "
    "mistral cohere aws azure "
    "gcp google hf hub huggingface github gitlab gitee gitcode modelscope openmind obs oss cos tos "
    "s3 minio aliyun ali "
    "alibaba huawei huaweicloud tencent volc volcengine baidu deploy service subscription consumer storage "
    "auth oauth gpg pgp rsa dsa ecdsa aes hmac jwt tls ssl app bot webhook root admin db database mysql "
    "postgres mongo redis ftp smtp mail email ldap vnc proxy password pass bearer activation product slack discord "
    "telegram ding dingtalk feishu lark wechat wecom wx twilio sentry datadog elastic kafka deepseek qwen dashscope "
    "zhipu moonshot kimi ark kaggle docker registry npm pypi jenkins ci vault refresh id session user identity host "
    "license xai groq together replicate nvidia ngc labelbox roboflow ray tailscale cloudflare cf"
)
"""Words that make a key or token a credential."""

HARMLESS_BEFORE = {
    "key": words("query q k v kv value values attention attn head heads padding pad mask image "
    "images img video audio text label "
        "labels prompt response input inputs output outputs data dataset sort metric metrics monitor reward loss fn "
        "batch group cache feature features column field json yaml dict index primary foreign partition config cfg "
        "state missing unexpected ignore model param params parameter parameters optimizer target source src tgt "
        "question answer instruction message messages chosen rejected meta train val eval test rng "
    "sampler seq sequence "
        "time timestamp hot map lookup search past cross memory num size dim proj projection rope norm bias weight "
        "weights embed embedding layer conv chat template role content tag tags class category task "
    "stage step epoch lr "
        "best early stopping filter join merge shuffle split file max min exclude include required cell block frame "
        "result limit logits score hidden sample record lr scheduler save load checkpoint ckpt extra allowed skip"),
    "token": words("pad padding eos bos unk mask cls sep start end stop begin beginning special "
    "image img video audio vision visual "
        "text num number max min new total per type level length count budget limit prompt response completion "
        "generated first last next previous prev latent global router routed moe mix classification shuffle wise "
        "position vocab added add extra additional sampled sample input output reasoning think thinking "
    "tool call eot "
        "eom bot eod fim prefix suffix middle patch register memory distill query placeholder newline "
    "space separator "
        "dummy train training eval valid ignore ignored loss target label draft decoder encoder of seq sequence role "
        "assistant system turn word sub byte char unused reserved language lang domain forced suppress bad kv lm mtp "
        "micro batch n avg mean pooling pooled tgt src speech object point region box dropped drop capacity global"),
    "pass": words("forward backward back fwd bwd num n first second third single one two multi max "
    "min low high band all eval "
        "train compile optimization opt ir graph fusion inference full count by"),
    "session": words("desktop tmux screen num max n graph tf onnx inference"),
    "signature": words("model function method fn call num"),
    "sid": words("ps"),
}  # fmt: skip
"""Words before the last word that make it a harmless setting."""

SECRET_ONLY_AFTER = {
    "code": words("access auth verification recovery invite mfa otp login"),
    "tok": words("api access auth oauth bearer refresh login deploy bot service github gitlab wandb registry"),
    "ticket": words("auth cas krb kerberos login session sso tgt"),
    "private": words("signing ssh rsa wireguard"),
}
"""Words that make a name secret as the last word only after these words."""

NEUTRAL = words(
    "id ids value values val str string text txt base64 b64 hex raw plain plaintext encoded enc encrypted encr hash "
    "hashed prod production dev development test staging stage env new old current curr data main default backup "
    "primary secondary temp tmp header headers info json pair material content contents override local remote global "
    "hf huggingface hub github gitlab wandb swanlab aws azure gcp obs oss s3 openai a b c x y v s "
    "line lines body param"
)
"""Words that are ignored at the end of a name: `access_key_id` is an access key, `token_hf` a token."""

MEASURES = words(
    "length len size count type kind mode policy ttl timeout expiry expires expiration enabled "
    "enable required rounds "
    "retries min max steps step interval strength provider manager backend version format algorithm algo method "
    "rotation samesite secure httponly age attempts limit memory threshold ratio weight loss"
)
"""Last words of properties of a secret."""

LOCATIONS = words("path paths file files filename dir dirs directory folder location")
"""Last words of locations of a secret, whose path is not secret."""

IDENTITIES = words(
    "commit commits sha md hash checksum digest revision rev uuid guid version build tag id ids device "
    "devices run snapshot etag crc git job experiment trial image boot machine pod container node hostname host "
    "invocation trace gpu gpus npu npus snapshots blobs refs name names"
)
"""Words of names whose values are public hexadecimal numbers."""

NOT_WORDS = words(
    "bypass compass lowpass highpass bandpass allpass overpass surpass trespass encompass multipass onepass twopass "
    "monkey donkey turkey hockey jockey whiskey keyboard keyword keywords hotkey keyframe keyframes passthrough "
    "tokenizer tokenizers tokenize tokenized tokenization detokenizer detokenize pretokenizer pretokenize subtoken "
    "author authors authoring passed passing passes"
)
"""Words that begin or end like one of the words above but are unrelated."""

ENDINGS = (
    *("passwords", "password", "passphrase", "passcode", "passwd", "credentials", "credential", "secrets", "secret"),
    *("authorization", "webhook", "cookies", "cookie", "tokens", "token", "license", "session", "creds", "auth"),
    *("pass", "keys", "key", "pwd", "jwt"),
)
"""Words at the end of compounds: `userpass`, `sshkey`."""

BEGINNINGS = (
    *("password", "passwd", "passphrase", "secretaccesskey", "secretkey", "secret", "accesskey", "privatekey"),
    *("apikey", "credential", "authtoken", "accesstoken"),
)

SHORT_ENDINGS = {
    "pw": words("ftp db user root admin my smtp mail sql mysql pg redis ldap vnc ssh login http proxy web"),
    "ak": words("obs hw huawei aws ali aliyun cloud s3 oss cos tos minio my bce volc"),
    "sk": words("obs hw huawei aws ali aliyun cloud s3 oss cos tos minio my bce volc"),
}
"""Two letters at the end of compounds, only after these words: `ftppw`."""

NO_PASSWORD_OPTION = words(
    "mkdir ssh scp cp rsync nc ps tar rmdir pip pip3 test kill install nvidia-smi npu-smi srun "
    "sbatch salloc tmux ls grep "
    "find patch git perl mount umount"
)
"""Commands whose `-p` is not a password."""

SECRET_LETTERS = {
    "redis-cli": "a",
    "ldapsearch": "w",
    "ldapmodify": "w",
    "zip": "P",
    "unzip": "P",
    "obsutil": "ik",
    "ossutil": "ik",
    "ossutil64": "ik",
    "coscmd": "as",
    "sshpass": "p",
    "mosquitto_pub": "P",
    "kinit": "w",
}
"""Options of one letter that are followed by a secret, by command."""

LICENSES = re.compile(
    r"(?:apache|mit|bsd|[al]?gpl|mpl|cc|cc0|isc|unlicense|openrail|bigscience|llama|gemma|artistic|epl|mulan|mulanpsl|"
    r"eupl|zlib|postgresql|ms|odc|odbl|other|unknown|proprietary|tongyi|qwen|deepseek|creativeml)\d*(?:\.\d+)*"
    r"(?:[- ](?:license|licence|by|nc|sa|nd|clause|only|or|later|v?\d[\d.]*|[a-z]{1,12}))*",
    _ANY_CASE,
)
"""Names of licenses in SPDX and on Hugging Face."""

PAIRS = frozenset(
    f"{group[0]}{second}"
    for group in words(
        "a:bcdfgilmnprstuvxy b:aeilouy c:aehklorstu d:adeiosu e:acdefilmnpqrstvwxy f:aefilortu g:aeghir h:aeio "
        "i:acdefglmnoprstvz j:s k:es l:adeilostuy m:abdeimopsu n:acdefgiklnopstuv o:abcdfglmnoprstuw p:aehiloprstuy "
        "q:u r:acdegikmnorstuy s:acehikopstuy t:acehioprstuwy u:aceglmnprst v:aei w:aehinor y:p z:e"
    )
    for second in group[2:]
)
"""The most frequent pairs of letters: 95 % of the pairs in the documentation and in the public names of PyTorch."""
