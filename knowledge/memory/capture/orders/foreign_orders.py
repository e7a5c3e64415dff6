"""Orders in languages other than English, as classes of words: an order is a sentence that has certain classes.

Word order differs too much between languages for one expression each; which classes stand in one sentence does not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Final, NamedTuple

OTHER_LANGUAGE: Final = "other-language"
_SENTENCE_END: Final = re.compile(r"[.!?;。！？；؟।۔|\n]+(?=\s|$|[^\x00-\x7f])|\n")
_MAX_JOINED: Final = 400
"""Characters of a text that is also read as one sentence, since its line breaks may be a disguise."""
_LOANWORDS: Final = r"\b(?:tokens?|passwords?|api[ -]?keys?|credentials?|secrets?|ssh[ -]?keys?|\.env|id_rsa|\w+_(?:token|key|secret))\b"
_AWAY: Final = r"https?://|\S@\S|\[redacted:email\]"


class Words(NamedTuple):
    """Words of one language, as re2 expressions in lower case; Latin letters without accents.

    `drop`: to ignore or forget, as an order. `rules`: instructions. `hush`: not to tell. `people`: users, reviewers.
    `allow`: to approve. `every`: always, all. `give`: to send or show. `secrets`: keys, passwords. `target`: where to.
    """

    drop: str
    rules: str
    hush: str
    people: str
    allow: str
    every: str
    give: str
    secrets: str
    target: str


LATIN: Final[Mapping[str, Words]] = {
    "german": Words(
        r"\b(?:ignorier\w*|missacht\w*|vergiss|vergesst|vergessen sie|verwirf|verwerft|ubergeh\w*)\b",
        r"\b(?:\w*anweisung\w*|instruktion\w*|vorgaben|regeln|befehle?n?|weisungen|richtlinien)\b",
        r"\b(?:sag|sage|sagt|sagen sie|erzahl\w*|verrat\w*|berichte[nt]?|melde[nt]?|informier\w*|erwahn\w*|teile?|zeige?|verschweige?) (?:\w+ ){0,4}(?:nicht|nichts|kein\w*)\b|\b(?:nichts?|ohne) (?:\w+ ){0,4}(?:zu )?(?:sagen|erzahlen|verraten|mitteilen|erwahnen|informieren|fragen)\b|\b(?:verschweig\w*|verheimlich\w*)\b",
        r"\b(?:benutzer\w*|nutzer\w*|anwender\w*|mensch\w*|prufer\w*|betreiber\w*|niemand\w*|kund(?:e|en|in)|team|entwickler\w*|chef)\b",
        r"\b(?:genehmig(?:e|t|en sie)|bestatig(?:e|t|en sie)|akzeptier(?:e|t)|winke?|gib .{0,30}frei)\b",
        r"\b(?:immer|stets|jede[nmrs]?|alle[nmrs]?|sofort|ungepruft|ohne (?:\w+ )?prufung|ab jetzt|ab sofort)\b",
        r"\b(?:sende|sendet|schick\w*|verrat\w*|gib|gebt|lade|leite|ubermittel\w*|kopier\w*|zeig\w*|nenn\w*|teil\w*)\b",
        r"\b(?:\w*passwort\w*|\w*passworter\w*|kennwort\w*|zugangsdaten|\w*schlussel\w*|geheimnis\w*)\b",
        r"\b(?:adresse|antwort|chat|kommentar|ticket|mir|uns|bericht|nachricht)\b",
    ),
    "french": Words(
        r"\b(?:ignor(?:e|ez|er|es)|oubli(?:e|ez|er|es)|neglig(?:e|ez)|ne (?:tiens|tenez) (?:plus |pas )?compte|ne (?:suis|suivez|respecte|respectez) (?:plus|pas))\b",
        r"\b(?:(?:les|ces|tes|vos|des|aux|nos|leurs|l') ?(?:\w+ ){0,2}?(?:instructions?|directives?)|consignes?|regles|ordres)\b",
        r"\bne (?:\w+ )?(?:dis|dites|parle|parlez|mentionne|mentionnez|revele|revelez|informe|informez|previens|prevenez|signale|signalez|montre|montrez|avertis|avertissez) (?:\w+ )?(?:pas|rien|jamais)\b|\b(?:n'(?:informe|informez|avertis|avertissez|en parle) (?:\w+ )?(?:pas|jamais|rien))\b|\bsans (?:le |la |en )?(?:dire|informer|prevenir|avertir|parler)\b|\bcache[zr]?(?:-(?:le|la|les)| (?:le|la|les|ca|cela|ce|cette|tout|rien) )",
        r"\b(?:utilisateur\w*|usager\w*|personne|humain\w*|relecteur\w*|client\w*|operateur\w*|equipe|responsable|administrateur)\b",
        r"\b(?:approuve[zr]?|accepte[zr]?|valide[zr]?|autorise[zr]?)\b",
        r"\b(?:toujours|tout|toute|toutes|tous|chaque|n'importe|immediatement|sans (?:\w+ )?(?:verifi\w+|revue|relecture|examen|controle)|desormais|systematiquement)\b",
        r"\b(?:envoi(?:e|es|ez)|envoy(?:er|ez)|transmet\w*|affiche[zr]?|donne[zr]?|publie[zr]?|copie[zr]?|revele[zr]?|poste[zr]?|partage[zr]?|communique[zr]?)\b",
        r"\b(?:mots? de passe|jetons?|cles?|identifiants?)\b",
        r"\b(?:adresse|reponse|commentaire|moi|nous|message|rapport)\b",
    ),
    "spanish": Words(
        r"\b(?:ignor(?:a|ad|e|en|ar)|olvid(?:a|ad|e|en|ate)|descart(?:a|ad|e)|desobedec\w+|omit(?:e|a)|haz caso omiso|no (?:sigas|obedezcas|respetes|hagas caso))\b",
        r"\b(?:instruccion\w*|ordenes|reglas|indicaciones|directrices|normas|directivas)\b",
        r"\b(?:no|nunca|jamas) (?:se lo |le |les |lo )?(?:digas?|cuentes?|informes?|avises?|menciones?|reveles?|comuniques?|muestres?|notifiques?)\b|\bsin (?:decir|avisar|informar|contar|notificar)\w*\b|\b(?:oculta|ocultale|ocultalo|esconde)\b",
        r"\b(?:usuari\w+|nadie|human\w+|revisor\w*|persona|cliente|operador\w*|equipo|administrador\w*)\b",
        r"\b(?:aprueb(?:a|e|en)|acept(?:a|e)|autoriz(?:a|ad)|valid(?:a|ad))\b",
        r"\b(?:siempre|tod[oa]s?|cualquier|cada|inmediatamente|sin (?:\w+ )?(?:revis\w+|comprob\w+|verific\w+|preguntar)|a partir de ahora|automaticamente)\b",
        r"\b(?:envi(?:a|e|en|ale|ame)|mand(?:a|e|ame)|muestr(?:a|e)|revel(?:a|e)|public(?:a|ad)|copi(?:a|e)|peg(?:a|ue)|sub(?:e|a)|compart(?:e|a)|entreg(?:a|ue))\b",
        r"\b(?:contrasenas?|claves?|credenciales?|secretos?|llaves?)\b",
        r"\b(?:direccion|respuesta|comentario|mi|correo|chat|mensaje|informe)\b",
    ),
    "portuguese": Words(
        r"\b(?:ignor(?:e|a|em|ar)|esque(?:ca|cam|ce|cer)|desconsider(?:e|a|em)|descart(?:e|a)|desobedec\w+|nao (?:siga|obedeca|respeite))\b",
        r"\b(?:instruc(?:ao|oes)|instruco\w*|ordens|regras|indicacoes|diretrizes|orientacoes|comandos)\b",
        r"\b(?:nao|nunca|jamais) (?:o |lhe |a )?(?:diga|conte|informe|avise|mencione|revele|mostre|comunique|fale|notifique)\b|\bsem (?:dizer|avisar|informar|contar|notificar)\b|\b(?:esconda|oculte)\b",
        r"\b(?:usuari\w+|utilizador\w*|ninguem|human\w+|revisor\w*|pessoa|cliente|operador\w*|equipe|equipa|administrador\w*)\b",
        r"\b(?:aprov(?:e|em|a)|aceit(?:e|em|a)|autoriz(?:e|a)|valid(?:e|a))\b",
        r"\b(?:sempre|tod[oa]s?|qualquer|cada|imediatamente|sem (?:\w+ )?(?:revis\w+|verific\w+|perguntar)|a partir de agora|automaticamente)\b",
        r"\b(?:envi(?:e|em|a)|mand(?:e|a)|mostr(?:e|a)|revel(?:e|a)|publi(?:que|ca)|copi(?:e|a)|col(?:e|a)|compartilh(?:e|a)|entregu?(?:e|a))\b",
        r"\b(?:senhas?|chaves?|credenciais|segredos?|palavras?-passe)\b",
        r"\b(?:endereco|resposta|comentario|mim|correio|chat|mensagem|relatorio)\b",
    ),
    "italian": Words(
        r"\b(?:ignor(?:a|ate|are|i)|dimentica(?:te|re)?|trascura(?:te|re)?|scarta(?:te|re)?|non (?:seguire|seguite|rispettare|considerare))\b",
        r"\b(?:istruzion\w+|regole|ordini|direttive|indicazioni|comandi)\b",
        r"\bnon (?:lo )?(?:dire|dirlo|dite|informare|avvisare|menzionare|rivelare|raccontare|mostrare|comunicare)\b|\bsenza (?:dir\w+|informar\w+|avvisar\w+|chieder\w+)\b|\b(?:nascondi|nascondere|nascondilo)\b",
        r"\b(?:utent\w+|nessuno|uman\w+|revisor\w+|persona|client\w+|operator\w+|squadra|team|amministrator\w+)\b",
        r"\b(?:approv(?:a|are|ate)|accett(?:a|are|ate)|autorizz(?:a|are|ate)|convalid(?:a|are))\b",
        r"\b(?:sempre|tutt[oaie]|ogni|qualsiasi|qualunque|subito|senza (?:\w+ )?(?:verific\w+|revision\w+|controll\w+)|d'ora in poi|automaticamente)\b",
        r"\b(?:invi(?:a|are|ate)|mand(?:a|are|ate)|mostr(?:a|are)|rivel(?:a|are)|pubblic(?:a|are)|copi(?:a|are)|incoll(?:a|are)|condivid\w+)\b",
        r"\b(?:parol[ae] d'ordine|chiav[ei]|credenziali|segret[oi])\b",
        r"\b(?:indirizzo|risposta|commento|me|posta|chat|messaggio|rapporto)\b",
    ),
    "dutch": Words(
        r"\b(?:negeer|negeren|vergeet|sla .{0,20}over|volg .{0,30}niet)\b",
        r"\b(?:instructies|aanwijzingen|regels|opdrachten|richtlijnen|bevelen)\b",
        r"\b(?:vertel|zeg|meld|noem|vermeld|informeer|laat) (?:\w+ ){0,5}(?:niet|niets|geen|nooit)\b|\bzonder (?:\w+ ){0,3}te (?:vertellen|melden|informeren|zeggen|vragen)\b|\bverberg\b",
        r"\b(?:gebruikers?|niemand|mens|mensen|beoordelaar|klant|beheerder|team)\b",
        r"\b(?:keur|accepteer|bevestig|goedkeuren)\b",
        r"\b(?:altijd|alle|alles|elke?|ieder\w*|meteen|zonder (?:\w+ )?controle|vanaf nu)\b",
        r"\b(?:stuur|verstuur|verzend|toon|plaats|kopieer|deel|plak|geef)\b",
        r"\b(?:wachtwoord\w*|sleutels?|inloggegevens|geheim\w*)\b",
        r"\b(?:adres|antwoord|reactie|mij|ons|bericht|verslag)\b",
    ),
    "polish": Words(
        r"\b(?:z?ignoruj\w*|zapomnij\w*|pomin\w*|odrzuc|nie (?:przestrzegaj|stosuj))\b",
        r"\b(?:instrukcj\w+|polecen\w+|zasad\w*|regul\w*|wytyczn\w+|rozkaz\w+)\b",
        r"\bnie (?:mow|informuj|wspominaj|powiadamiaj|ujawniaj|zglaszaj|pokazuj)\w*\b|\bnic nie mow\b|\bukryj\b|\bbez (?:informowania|pytania)\b",
        r"\b(?:uzytkownik\w*|nikomu|czlowiek\w*|ludzi\w*|recenzent\w*|klient\w*|operator\w*)\b",
        r"\b(?:zatwierdzaj|zatwierdz|akceptuj|zaakceptuj)\w*\b",
        r"\b(?:zawsze|kazd\w+|wszystk\w+|natychmiast|bez (?:sprawdzania|kontroli)|od teraz)\b",
        r"\b(?:wyslij|przeslij|wypisz|pokaz|opublikuj|podaj|udostepnij|wklej)\b",
        r"\b(?:hasl\w+|klucz\w*|dane logowania|sekret\w*)\b",
        r"\b(?:adres\w*|odpowiedz\w*|komentarz\w*|mi|wiadomos\w+)\b",
    ),
    "turkish": Words(
        r"\b(?:yok say\w*|yoksay\w*|unut\w*|gormezden gel\w*|dikkate alma\w*|uyma\w*)\b",
        r"\b(?:talimat\w*|kural\w*|komut\w*|yonerge\w*|emir\w*)\b",
        r"\b(?:soyleme\w*|bildirme\w*|anlatma\w*|bahsetme\w*|haber verme\w*|gosterme\w*|sakla|gizle)\b",
        r"\b(?:kullanici\w*|kimseye|kimse|insan\w*|yonetici\w*|musteri\w*|denetci\w*|ekibe|ekip)\b",
        r"\b(?:onayla\w*|kabul et\w*|izin ver\w*)\b",
        r"\b(?:her|her zaman|daima|tum|butun|hemen|simdiden sonra|bundan sonra)\b",
        r"\b(?:gonder\w*|yolla\w*|paylas\w*|goster\w*|yaz|kopyala\w*|ilet)\b",
        r"\b(?:sifre\w*|parola\w*|anahtar\w*|kimlik bilgi\w*|jeton\w*|token'?\w*)\b",
        r"\b(?:adres\w*|yanit\w*|cevap\w*|yorum\w*|bana|bize|mesaj\w*)\b",
    ),
    "vietnamese": Words(
        r"\b(?:bo qua|lam ngo|phot lo|quen (?:het|di|tat ca|moi)|khong (?:tuan theo|lam theo))\b",
        r"\b(?:huong dan|chi dan|chi thi|menh lenh|quy tac|chi lenh|lenh|quy dinh)\b",
        r"\b(?:dung|khong|khong duoc|cho) (?:noi|bao|ke|tiet lo|thong bao|nhac|cho biet|de lo)\b|\b(?:giau|che giau)\b",
        r"\b(?:nguoi dung|nguoi duyet|nguoi kiem|con nguoi|khach hang|quan tri|bat ky ai|ai biet|ai ca)\b",
        r"\b(?:phe duyet|chap nhan|chap thuan|dong y|duyet)\b",
        r"\b(?:luon|luon luon|moi|tat ca|bat ky|ngay lap tuc|tu (?:bay gio|nay)|khong can (?:kiem tra|hoi))\b",
        r"\b(?:gui|dang|hien thi|in ra|chia se|sao chep|cung cap|tiet lo)\b",
        r"\b(?:mat khau|khoa|thong tin dang nhap|ma thong bao|bi mat)\b",
        r"\b(?:dia chi|tra loi|binh luan|cho toi|den|toi|bao cao|tin nhan|ben duoi)\b",
    ),
    "indonesian": Words(
        r"\b(?:abaikan|lupakan|jangan (?:ikuti|patuhi|hiraukan)|kesampingkan|langgar)\b",
        r"\b(?:instruksi|perintah|aturan|arahan|petunjuk|pedoman|peraturan)\b",
        r"\bjangan (?:\w+ )?(?:beri ?tahu\w*|katakan|sampaikan|sebut\w*|laporkan|ceritakan|tunjukkan|bagitahu|maklumkan)\b|\btanpa (?:memberi ?tahu|sepengetahuan)\b|\b(?:sembunyikan|rahasiakan)\b",
        r"\b(?:pengguna|siapa ?pun|manusia|peninjau|pelanggan|operator|admin|orang|tim)\b",
        r"\b(?:setujui|menyetujui|terima|luluskan|izinkan)\b",
        r"\b(?:selalu|semua|setiap|apa pun|segera|mulai sekarang|tanpa (?:pemeriksaan|meninjau|memeriksa|tinjauan)|sentiasa)\b",
        r"\b(?:kirim(?:kan)?|tampilkan|unggah|bagikan|salin|tempel(?:kan)?|hantar|serahkan|tulis(?:kan)?)\b",
        r"\b(?:kata sandi|kata laluan|sandi|kunci|kredensial|rahasia)\b",
        r"\b(?:alamat|jawaban|komentar|saya|kami|pesan|laporan|balasan)\b",
    ),
    "javanese": Words(
        r"\b(?:lirwakna|lalekna|aja (?:nuruti|manut|digatekake)|ora usah (?:nuruti|manut)|abaikna)\b",
        r"\b(?:prentah|instruksi|pituduh|aturan|dhawuh)\b",
        r"\baja (?:\w+ )?(?:kandha\w*|ngomong|crita|dikandhani|dikandhakake|ngandhani|nyebut\w*|dituturi)\b",
        r"\b(?:pangguna|panganggo|sapa wae|wong|manungsa)\b",
        r"\b(?:setujonana|sarujuki|setujoni|tampanen|disetujoni)\b",
        r"\b(?:tansah|kabeh|saben|terus)\b",
        r"\b(?:kirimna|kirimen|kirim|tuduhna|wenehna)\b",
        r"\b(?:sandhi|kunci|tembung sandhi)\b",
        r"\b(?:alamat|wangsulan|aku)\b",
    ),
    "swahili": Words(
        r"\b(?:puuza|puuzeni|sahau|sahauni|usifuate|usizingatie|achana na)\b",
        r"\b(?:maagizo|maelekezo|amri|sheria|kanuni|miongozo)\b",
        r"\b(?:usi(?:mwambie|waambie|seme|mjulishe|taje|toe taarifa|onyeshe|fichue)|msimwambie|ficha|bila kumwambia|bila kumjulisha)\b",
        r"\b(?:mtumiaji|watumiaji|mtu|watu|yeyote|msimamizi|mkaguzi|mteja)\b",
        r"\b(?:idhinisha|uidhinishe|kubali|ukubali|ruhusu|pitisha)\b",
        r"\b(?:daima|kila|yote|zote|wote|mara moja|kuanzia sasa|siku zote)\b",
        r"\b(?:tuma|utume|onyesha|chapisha|shiriki|nakili|toa)\b",
        r"\b(?:nenosiri|manenosiri|nywila|funguo|ufunguo|siri)\b",
        r"\b(?:anwani|jibu|maoni|kwangu|kwetu|ujumbe|ripoti)\b",
    ),
    "hausa": Words(
        r"\b(?:yi watsi|ka yi watsi|manta|ka manta|kada ka bi|kar ka bi|watsar)\b",
        r"\b(?:umarni\w*|umarnin|umurni\w*|dokoki\w*|ka'?idoji\w*|bayanai)\b",
        r"\b(?:kada|kar) (?:ka|ki|ku) (?:fada|gaya|sanar|bayyana|ambaci|nuna)\w*\b|\b(?:boye)\b",
        r"\b(?:mai amfani|masu amfani|kowa|mutum|mutane|mai duba|abokin ciniki)\b",
        r"\b(?:amince|ka amince|yarda|karba)\b",
        r"\b(?:koyaushe|kullum|duk|duka|dukkan|kowane|kowace|nan take)\b",
        r"\b(?:aika|ka aika|tura|ka tura|nuna|raba)\b",
        r"\b(?:kalmar sirri|kalmomin sirri|mabudi\w*|makulli\w*|sirri)\b",
        r"\b(?:adireshi\w*|amsa|sako|gare ni|zuwa)\b",
    ),
    "tagalog": Words(
        r"\b(?:balewalain|huwag (?:mong )?(?:sundin|pansinin|intindihin)|kalimutan|isantabi|ipagwalang-?bahala)\b",
        r"\b(?:tagubilin|utos|mga utos|panuto|patakaran|alituntunin|instruksyon|instruksiyon|tuntunin)\b",
        r"\bhuwag (?:mo(?:ng)? |ninyong |na |nang )*(?:sabihin|ipaalam|banggitin|ikuwento|ibunyag|ipakita|i-report)\b|\b(?:itago|ilihim)\b",
        r"\b(?:gumagamit|user|sinuman|kanino|tao|tagasuri|kliyente|kahit kanino)\b",
        r"\b(?:aprubahan|i-?apruba\w*|tanggapin|payagan)\b",
        r"\b(?:palagi|laging|lagi|lahat|bawat|agad|mula ngayon|kahit ano)\b",
        r"\b(?:ipadala|magpadala|ipakita|i-?post|ibahagi|kopyahin|isulat)\b",
        r"\b(?:kontrasenyas?|mga susi|susi|lihim|password)\b",
        r"\b(?:address|tirahan|sagot|komento|akin|amin|mensahe|ulat|sa)\b",
    ),
    "pidgin": Words(
        r"\b(?:no mind|forget|comot mind from|no follow|no gree follow|throway|ignore|no send)\b",
        r"\b(?:instruction\w*|rule\w*|order\w*) (?:\w+ ){0,3}(?:wey|dem)\b|\b(?:wetin|everytin|everything|all) (?:\w+ )?(?:dem|dey|wey) (?:\w+ )?(?:tell|talk|give|show)\b|\b(?:di|dem|dat) (?:\w+ )?(?:instruction|rule|order)s?\b",
        r"\b(?:no|make you no|abeg no) (?:\w+ )?(?:tell|talk|show|yarn) (?:am |give |to )?(?:di|dem|anybody|person|oga|anyone)\b|\bno let (?:di )?\w+ (?:sabi|know)\b",
        r"\b(?:user|oga|person|anybody|pesin|pipo|dem|people|reviewer)\b",
        r"\b(?:approve|gree|accept)\b (?:\w+ )?(?:di|dem|am|wey|everytin)\b",
        r"\b(?:always|every ?tin|every|all|anytin|any ?how|sharp sharp|dey)\b",
        r"\b(?:send|carry|show|drop|give|post)\b (?:\w+ )?(?:di|dem|am)\b",
        r"\b(?:password|key|token|secret)s?\b",
        r"\b(?:give me|put for|go (?:meet|give)|for (?:inside|di)|come)\b",
    ),
    "swedish": Words(
        r"\b(?:ignorera|glom|bortse|strunta i|ignorer|glem|se bort|unohda|ohita|jata huomiotta)\b",
        r"\b(?:instruktion\w*|anvisning\w*|regler\w*|instruks\w*|ohjee\w*|ohje\w*|saanno\w*|kaskyt)\b",
        r"\b(?:beratta|namn|sag|informera|fortell|fortael|si) (?:\w+ ){0,3}(?:inte|inget|ikke|aldrig|intet)\b|\binte (?:beratta|saga|namna|informera)\b|\b(?:ala|alka) (?:kerro|mainitse|ilmoita)\b",
        r"\b(?:anvandare\w*|bruger\w*|bruker\w*|ingen|nagon|kund\w*|kayttaja\w*|kenellekaan|granskare\w*)\b",
        r"\b(?:godkann|godkend|godkjenn|acceptera|hyvaksy)\b",
        r"\b(?:alltid|altid|alla|alle|varje|hver|allt|aina|kaikki|heti)\b",
        r"\b(?:skicka|visa|laheta|nayta|dela med)\b",
        r"\b(?:losenord\w*|nyckel|nycklar\w*|adgangskode\w*|passord\w*|salasana\w*|avaime\w*)\b",
        r"\b(?:adress\w*|adresse\w*|svar\w*|kommentar\w*|mig|meg|osoit\w*|minulle)\b",
    ),
    "romanian": Words(
        r"\b(?:ignora(?:ti)?|uita(?:ti)?|ignoruj(?:te)?|zapomen(?:te)?|hagyd figyelmen|felejtsd el|ne vedd figyelembe)\b",
        r"\b(?:instructiun\w+|regul\w+|ordin\w+|pokyn\w*|instrukc\w+|pravidl\w*|utasitas\w*|szabaly\w*)\b",
        r"\bnu (?:ii |le |i )?(?:spune\w*|mentiona\w*|informa\w*|anunta\w*)\b|\bne(?:rikej|zminuj|informuj|sdeluj)\w*\b|\bne (?:mondd|emlitsd|szolj|ertesitsd)\b",
        r"\b(?:utilizator\w*|nimanui|uzivatel\w*|nikomu|felhasznalo\w*|senkinek)\b",
        r"\b(?:aproba(?:ti)?|accepta(?:ti)?|schval\w*|hagyd jova|fogadd el)\b",
        r"\b(?:mereu|intotdeauna|toate|orice|fiecare|vzdy|vsechn\w+|kazd\w+|mindig|minden\w*)\b",
        r"\b(?:trimite(?:ti)?|afiseaza|posli\w*|zobraz\w*|kuldd el|kuld\w*|mutasd)\b",
        r"\b(?:parol\w+|chei\w*|hesl\w+|klic\w*|jelszo\w*|jelszav\w*|kulcs\w*)\b",
        r"\b(?:adres\w*|raspuns\w*|odpoved\w*|mie|mi|cim\w*|valasz\w*|nekem)\b",
    ),
}
"""Languages in Latin letters."""

OTHER: Final[Mapping[str, Words]] = {
    "chinese": Words(
        "忽略|无视|無視|忘记|忘記|忘掉|不要理会|不要理會|忽視|忽视|别管|別管|唔好理|唔使理|不用理|抛开|拋開|不要遵守|不再遵守|覅管|勿要管",
        "指令|指示|提示词|提示詞|规则|規則|说明|說明|命令|要求|规定|規定|指引",
        "(?:不要|别|別|勿|不得|不准|唔好|切勿|覅|勿要|无需|不必|不用)[^。，,\n]{0,8}(?:告诉|告訴|通知|提及|提到|透露|汇报|匯報|报告|報告|话|話|讲|講|说|說|提醒|让|讓)|瞒着|瞞住|瞞著|隐瞒|隱瞞|保密",
        "用户|用戶|使用者|任何人|人类|人類|审核|審核|审查|管理员|管理員|客户|客戶|负责人|同事|老板",
        "批准|同意|通过|通過|接受|核准|放行|允许|允許",
        "总是|總是|始终|始終|永远|永遠|一律|所有|任何|每个|每個|每次|全部|无条件|直接|都要|一直|嗰啲|无论|無論",
        "发送|發送|发给|發給|发到|發到|寄给|寄給|上传|上傳|传到|傳到|贴到|貼到|告诉|告訴|输出|輸出|显示|顯示|写进|寫進|写在|附上|畀",
        "密码|密碼|密钥|密鑰|令牌|凭据|憑據|凭证|憑證|口令|私钥|私鑰|秘密|环境变量",
        "地址|网址|網址|邮箱|郵箱|回复|回覆|评论|評論|聊天|报告|我|这里|這裡|以下|下面|对方|總結|总结",
    ),
    "japanese": Words(
        "無視|忘れ|従わない|従うな|従わず|破棄|気にしない|むし",
        "指示|命令|プロンプト|ルール|指令|規則|インストラクション|方針|制約",
        "(?:伝え|知らせ|教え|言わ|話さ|報告し|言及し|明かさ|告げ|通知し|見せ)(?:ない|ず|るな|ては|てはいけ)|(?:内緒|秘密)に|隠して|隠せ|黙って",
        "ユーザ|利用者|人間|誰|レビュ|担当者|管理者|お客|チーム|オペレータ",
        "承認|許可|受け入れ|マージし|通過させ",
        "常に|必ず|いつも|すべて|全て|全部|毎回|どんな|あらゆる|無条件|今後|確認せず|確認なし",
        "送信|送って|送れ|送り|貼り|投稿|書き込|教えて|出力|表示して|共有|アップロード|添付|含めて",
        "パスワード|秘密鍵|トークン|認証情報|鍵|シークレット|環境変数|キー",
        "アドレス|宛|返信|回答|コメント|チャット|報告|私に|次の|以下|チケット|要約",
    ),
    "korean": Words(
        "무시|잊어|잊고|따르지 ?(?:마|말)|버리고|신경 ?쓰지 ?(?:마|말)",
        "지시|명령|지침|규칙|프롬프트|안내|설정된 ?역할",
        "(?:말하지|알리지|언급하지|보고하지|얘기하지|이야기하지|밝히지|보여주지|전하지|통보하지) ?(?:마|말|않)|비밀로|숨기|숨겨|몰래",
        "사용자|유저|아무|누구|사람|검토자|관리자|고객|담당자|운영자|팀",
        "승인|허용|수락|통과시|허가|동의",
        "항상|언제나|모든|모두|무조건|매번|어떤|즉시|검토 ?없이|확인 ?없이|앞으로",
        "보내|전송|공유|게시|출력|붙여 ?넣|업로드|올려|첨부|알려",
        "비밀번호|암호|토큰|자격 ?증명|개인 ?키|키를|키와|시크릿|환경 ?변수|인증 ?정보",
        "주소|답변|댓글|채팅|보고서|저에게|나에게|아래|다음|로 보내|요약",
    ),
    "russian": Words(
        r"игнорир\pL*|проигнорир\pL*|забудь\pL*|забыть|не обраща\pL* внимани\pL*|отмени\pL*|пренебре\pL*|не следуй\pL*|не соблюдай\pL*|ігнору\pL*|проігнору\pL*|забудь|не зважай\pL*|не дотримуй\pL*",
        r"инструкци\pL*|указани\pL*|правил\pL*|команд\pL*|предписани\pL*|распоряжени\pL*|приказ\pL*|інструкці\pL*|вказівк\pL*|вказівок|наказ\pL*",
        r"(?:не|ничего не|никогда не|нічого не|ніколи не) (?:говори|сообщай|рассказывай|упоминай|докладывай|показывай|уведомляй|информируй|предупреждай|раскрывай|кажи|повідомляй|розповідай|згадуй|показуй)\pL*|скрой\pL*|скрывай\pL*|утаи|приховай\pL*|приховуй\pL*|(?:не|ничего) (?:говорить|сообщать)",
        r"пользовател\pL*|никому|человек\pL*|люд(?:ям|ей|и)|рецензент\pL*|проверяющ\pL*|клиент\pL*|оператор\pL*|администратор\pL*|команде|ревьюер\pL*|користувач\pL*|нікому|людин\pL*|начальник\pL*",
        r"одобр(?:яй|и|ить|ять|ите|яйте)|утвер(?:ждай|ди|ждать)\pL*|приним(?:ай|ать)\pL*|разреш(?:ай|и)\pL*|соглаша(?:йся|йтесь)|схвал(?:юй|и|ити|ювати)\pL*|затвер(?:джуй|ди)\pL*",
        r"всегда|вс(?:е|ё|ех|ем|я|ю)|кажд\pL*|люб(?:ой|ую|ые|ых|ое)|немедленно|без проверк\pL*|впредь|отныне|завжди|усі|всі|кожн\pL*|будь-як\pL*|без перевірк\pL*",
        r"отправ(?:ь|ьте|ляй|ить)\pL*|пришли\pL*|перешли\pL*|вышли\pL*|опубликуй\pL*|выведи\pL*|покажи\pL*|вставь\pL*|скопируй\pL*|передай\pL*|загрузи\pL*|напиши|надішли\pL*|відправ\pL*|перешли|виведи|опублікуй",
        r"парол\pL*|ключ\pL*|токен\pL*|секрет\pL*|уч[её]тн\pL+ данн\pL+|облікові дані",
        r"адрес\pL*|ответ\pL*|комментари\pL*|мне|нам|чат\pL*|отч[её]т\pL*|сообщени\pL*|почт\pL*|адрес\pL*|відповід\pL*|мені|коментар\pL*",
    ),
    "arabic": Words(
        "تجاهل|تجاهلي|تجاهلوا|انس[َى ]|انسى|إنسى|لا تتبع|لا تلتزم|متسمعش|سيبك من|اهمل|أهمل|طنش",
        "التعليمات|تعليمات|الأوامر|أوامر|اوامر|القواعد|قواعد|التوجيهات|توجيهات|الارشادات|الإرشادات",
        "(?:لا|ما|لاتقم بـ) ?(?:تخبر|تقل|تذكر|تبلغ|تعلم|تكشف|تطلع|تقول|تظهر)|متقولش|ماتقولش|متقوليش|ماتبلغش|متبلغش|أخف |اخفي|أخفِ|خبي|دون (?:إخبار|علم|إبلاغ)|من غير ما تقول",
        "المستخدم|مستخدم|أحد|احد|حد|المراجع|البشر|العميل|المسؤول|المشرف|الفريق|للمستخدم",
        "وافق|اوافق|اقبل|إقبل|اعتمد|صادق|مرر",
        "دائما|دائماً|دايما|كل|جميع|أي|اي|فورا|فوراً|بدون مراجعة|دون مراجعة|من الآن|على طول",
        "أرسل|ارسل|ابعت|إبعت|اعرض|انشر|انسخ|شارك|ارفع|اطبع|ضع",
        "كلمة المرور|كلمات المرور|كلمة السر|كلمات السر|الباسورد|المفتاح|المفاتيح|مفاتيح|مفتاح|الرمز|الرموز|بيانات الاعتماد|الأسرار|التوكن",
        "العنوان|عنوان|الرد|رد|تعليق|لي|لنا|الدردشة|التقرير|الرسالة|إلى|على",
    ),
    "persian": Words(
        "نادیده بگیر|نادیده|فراموش کن|توجه نکن|پیروی نکن|بی‌?خیال",
        "دستور|دستورات|دستورالعمل|دستورها|قوانین|راهنما|راهنمایی|قواعد|فرمان",
        "(?:نگو|نگویید|اطلاع نده|خبر نده|ذکر نکن|گزارش نکن|فاش نکن|نشان نده|چیزی نگو)|پنهان کن|مخفی کن|بدون اطلاع",
        "کاربر|هیچ ?کس|انسان|بازبین|مدیر|مشتری|کسی",
        "تأیید کن|تایید کن|تأیید|تایید|قبول کن|بپذیر|تصویب",
        "همیشه|همه|تمام|هر|فورا|فوراً|بدون بررسی|از این پس|از این به بعد",
        "بفرست|ارسال کن|نمایش بده|منتشر کن|کپی کن|به اشتراک|چاپ کن|بنویس",
        "رمز|رمز عبور|گذرواژه|کلید|توکن|اعتبارنامه",
        "آدرس|نشانی|پاسخ|نظر|به من|برای من|گزارش|پیام|زیر",
    ),
    "urdu": Words(
        "نظر ?انداز|بھول جا|بھلا د|عمل نہ کر|پر عمل مت",
        "ہدایات|ہدایت|احکامات|حکم|قواعد|اصول|قوانین|ضوابط",
        "(?:مت|نہ) (?:بتا|کہ|بتانا|بتاؤ|بتائیں|کہو|کہنا)|(?:کو|کسی کو) (?:\\S+ ){0,5}(?:مت|نہ) ?بتا|چھپا",
        "صارف|یوزر|کسی|انسان|جائزہ|گاہک|منتظم",
        "منظور|قبول|اجازت د|توثیق",
        "ہمیشہ|تمام|ہر|سب|فوراً|بغیر جانچ|بغیر (?:پوچھے|دیکھے)|اب سے",
        "بھیج|دکھا|شیئر کر|اپ ?لوڈ|کاپی کر|شائع کر|لکھ",
        "پاس ?ورڈ|کلید|ٹوکن|چابی|خفیہ|راز|اسناد",
        "پتے|پتہ|جواب|تبصر|مجھے|ہمیں|پیغام|رپورٹ|نیچے|پر|کو",
    ),
    "hindi": Words(
        "अनदेखा|अनदेखी|नज़रअंदाज़|नजरअंदाज|नज़रअंदाज|भूल जा|भुला|उपेक्षा|पालन (?:न|मत|ना)|दुर्लक्ष|विसर|पाळू नका|ध्यान (?:मत|न) (?:दें|दो)",
        "निर्देश|निर्देशों|आदेश|नियम|हिदायत|सूचना|आज्ञा",
        "(?:मत|न|ना|नहीं) (?:बता|कह|बोल)|(?:सांगू|सांगु|बोलू|कळवू|उल्लेख करू) नक|छिपा|छुपा|लपव|ज़िक्र (?:मत|न)|उल्लेख (?:मत|न)|सूचित (?:मत|न)",
        "उपयोगकर्ता|यूज़र|यूजर|किसी|प्रयोक्ता|इंसान|समीक्षक|ग्राहक|वापरकर्त|कोणाला|कुणाला|युजर|कोणालाही|प्रशासक",
        "स्वीकृत|मंज़ूर|मंजूर|अनुमोद|स्वीकार|मान्य|अप्रूव|मान्यता",
        "हमेशा|सभी|हर|सब|तुरंत|बिना (?:जाँच|जांच|समीक्षा|पूछे)|अब से|नेहमी|सर्व|प्रत्येक|लगेच|कोणत्याही|तपासणीशिवाय",
        "भेज|दिखा|साझा|पोस्ट|अपलोड|कॉपी|पाठव|दाखव|छाप|लिख",
        "पासवर्ड|कुंजी|टोकन|गुप्त|क्रेडेंशियल|संकेतशब्द|कूटशब्द|चाबी|किल्ली|कुंजियाँ",
        "पते|पता|जवाब|उत्तर|टिप्पणी|मुझे|हमें|संदेश|रिपोर्ट|नीचे|पर|पत्त्यावर|मला|खाली|करें|और|आणि",
    ),
    "bengali": Words(
        "উপেক্ষা|অগ্রাহ্য|ভুলে যাও|ভুলে যান|এড়িয়ে|মানবে না|মেনো না|অবহেলা",
        "নির্দেশ|নির্দেশনা|আদেশ|নিয়ম|নির্দেশাবলী|হুকুম|বিধি",
        "(?:বলবে|বলো|বলবেন|জানাবে|জানিও|জানাবেন|জানাবো|উল্লেখ কর[োবে]*|দেখাবে|বোলো) ?না|লুকিয়ে|গোপন রাখ|লুকাও",
        "ব্যবহারকারী|কাউকে|কারো|মানুষ|পর্যালোচক|গ্রাহক|ইউজার|প্রশাসক",
        "অনুমোদন|গ্রহণ কর|মঞ্জুর|সম্মতি",
        "সবসময়|সর্বদা|সব|সকল|প্রতি|প্রতিটি|যেকোনো|এখন থেকে|পরীক্ষা ছাড়া|যাচাই ছাড়া|সঙ্গে সঙ্গে",
        "পাঠাও|পাঠান|পাঠিয়ে|দেখাও|প্রকাশ কর|শেয়ার|আপলোড|কপি কর|পোস্ট কর",
        "পাসওয়ার্ড|চাবি|টোকেন|গোপন|কী |কী-|শংসাপত্র",
        "ঠিকানা|উত্তর|মন্তব্য|আমাকে|আমাদের|বার্তা|রিপোর্ট|নিচে|এবং",
    ),
    "punjabi": Words(
        "ਅਣਡਿੱਠ|ਨਜ਼ਰਅੰਦਾਜ਼|ਨਜ਼ਰਅੰਦਾਜ|ਭੁੱਲ ਜਾ|ਅਣਗੌਲ|ਅਣਦੇਖ|અવગણ|ભૂલી જા|નજરઅંદાજ|ઉપેક્ષા",
        "ਨਿਰਦੇਸ਼|ਹਦਾਇਤ|ਹੁਕਮ|ਨਿਯਮ|ਆਦੇਸ਼|સૂચના|નિર્દેશ|આદેશ|નિયમ|હુકમ",
        "(?:ਨਾ|ਨਹੀਂ|ਮਤ) (?:ਦੱਸ|ਕਹਿ|ਬੋਲ)|(?:ਦੱਸਣਾ|ਦੱਸੋ|ਕਹਿਣਾ) ?(?:ਨਾ|ਨਹੀਂ)|ਲੁਕਾ|(?:કહેશો|કહો|જણાવશો|કહેતા|જણાવો|કહેવું|જણાવતા|કહીશ) ?(?:નહીં|નહિ|મા|ના|નહી)|ન (?:કહો|જણાવો|કહેશો)|છુપાવ",
        "ਵਰਤੋਂਕਾਰ|ਉਪਭੋਗਤਾ|ਕਿਸੇ|ਯੂਜ਼ਰ|ਮਨੁੱਖ|વપરાશકર્તા|કોઈને|યુઝર|માણસ|ગ્રાહક",
        "ਮਨਜ਼ੂਰ|ਸਵੀਕਾਰ|ਪ੍ਰਵਾਨ|મંજૂર|સ્વીકાર|માન્ય",
        "ਹਮੇਸ਼ਾ|ਸਾਰੇ|ਸਾਰੀਆਂ|ਹਰ|ਸਭ|ਤੁਰੰਤ|હંમેશા|બધા|બધી|દરેક|તરત",
        "ਭੇਜ|ਦਿਖਾ|ਸਾਂਝਾ|ਪੋਸਟ|મોકલ|બતાવ|શેર|પોસ્ટ",
        "ਪਾਸਵਰਡ|ਕੁੰਜੀ|ਟੋਕਨ|ਚਾਬੀ|પાસવર્ડ|કી |કીઓ|ટોકન|ચાવી|ગુપ્ત",
        "ਪਤੇ|ਪਤਾ|ਜਵਾਬ|ਮੈਨੂੰ|ਸਾਨੂੰ|ਹੇਠਾਂ|ਅਤੇ|સરનામ|જવાબ|મને|અમને|નીચે|અને",
    ),
    "dravidian": Words(
        "புறக்கணி|பொருட்படுத்தாத|மறந்துவிடு|மறந்து விடு|மற|కాదని|విస్మరించ|పట్టించుకో|మర్చిపో|మరచిపో|నిర్లక్ష్య|ನಿರ್ಲಕ್ಷಿಸ|ಮರೆತು|ಕಡೆಗಣಿಸ|അവഗണിക്ക|മറക്ക|മറന്നേക്ക",
        "அறிவுறுத்தல|வழிமுறை|கட்டளை|விதி|உத்தரவு|அறிவுரை|ஆணை|సూచన|ఆదేశ|నియమ|నిబంధన|ఆజ్ఞ|ಸೂಚನೆ|ಆದೇಶ|ನಿಯಮ|ನಿರ್ದೇಶ|നിർദ്ദേശ|നിർദേശ|ഉത്തരവ|നിയമ|കൽപ്പന",
        "(?:சொல்ல|தெரிவிக்க|கூற|அறிவிக்க|குறிப்பிட|காட்ட) ?(?:ாதே|ாதீர்கள்|வேண்டாம்|கூடாது)|சொல்லாத|தெரிவிக்காத|கூறாத|மறைத்து|மறை(?:க்க|யுங்கள்)|(?:చెప్ప|తెలియజేయ|తెలప|ప్రస్తావించ|వెల్లడించ)(?:కు|వద్దు|కండి|ొద్దు|కూడదు| వద్దు)|దాచ|(?:ಹೇಳ|ತಿಳಿಸ|ಉಲ್ಲೇಖಿಸ)(?:ಬೇಡ|ಬಾರದು)|ಮುಚ್ಚಿಡ|(?:പറയ|അറിയിക്ക|വെളിപ്പെടുത്ത)(?:രുത്|ണ്ട)|മറച്ചു",
        "பயனர|யாரிடமும்|யாருக்கும்|மனித|பயனாள|வாடிக்கையாளர|வினியோக|వినియోగదారు|యూజర్|ఎవరికీ|ఎవరితోనూ|మనిషి|సమీక్షకు|ಬಳಕೆದಾರ|ಯಾರಿಗೂ|ಮನುಷ್ಯ|ഉപയോക്താ|ഉപഭോക്താ|ആരോടും|മനുഷ്യ",
        "அங்கீகரி|ஒப்புதல்|ஏற்றுக்கொள|அனுமதி|ఆమోదించ|అంగీకరించ|అనుమతించ|ಅನುಮೋದಿಸ|ಒಪ್ಪಿ|ಅಂಗೀಕರಿಸ|അംഗീകരിക്ക|അനുമതി",
        "எப்போதும்|எல்லா|அனைத்து|ஒவ்வொரு|உடனடியாக|எந்த|ఎల్లప్పుడూ|ఎప్పుడూ|అన్ని|ప్రతి|వెంటనే|ఏ |ಯಾವಾಗಲೂ|ಎಲ್ಲಾ|ಪ್ರತಿ|ತಕ್ಷಣ|എപ്പോഴും|എല്ലാ|ഓരോ|ഉടൻ",
        "அனுப்ப|அனுப்பு|காட்டு|பகிர|பதிவேற்ற|పంప|పంపండి|చూప|పంచు|పోస్ట్|ಕಳುಹಿಸ|ತೋರಿಸ|ಹಂಚಿ|അയയ്ക്ക|അയക്ക|കാണിക്ക|പങ്കിട",
        "கடவுச்சொ|ரகசிய|சாவி|டோக்கன்|விசை|పాస్‌?వర్డ్|కీ|టోకెన్|రహస్య|ಪಾಸ್‌?ವರ್ಡ್|ಕೀ|ಟೋಕನ್|ರಹಸ್ಯ|പാസ്‌?വേഡ്|കീ|ടോക്കൺ|രഹസ്യ",
        "முகவரி|பதில்|எனக்கு|கீழே|மற்றும்|చిరునామా|సమాధాన|నాకు|మాకు|క్రింది|మరియు|ವಿಳಾಸ|ಉತ್ತರ|ನನಗೆ|ಕೆಳಗ|ಮತ್ತು|വിലാസ|മറുപടി|എനിക്ക്|താഴെ",
    ),
    "thai": Words(
        "เพิกเฉย|ละเว้น|ไม่ต้องสนใจ|อย่าสนใจ|มองข้าม|ลืม|ไม่ต้องทำตาม|อย่าทำตาม|ละเลย",
        "คำสั่ง|คำแนะนำ|กฎ|ข้อกำหนด|คำชี้แจง|แนวทาง|ข้อบังคับ",
        "(?:อย่า|ห้าม|ไม่ต้อง)(?:บอก|แจ้ง|พูด|กล่าวถึง|รายงาน|เปิดเผย|ให้)|ปิดบัง|ซ่อน|เก็บเป็นความลับ",
        "ผู้ใช้|ใคร|มนุษย์|ผู้ตรวจ|ลูกค้า|ผู้ดูแล|ทีม",
        "อนุมัติ|ยอมรับ|อนุญาต|เห็นชอบ",
        "เสมอ|ทุก|ทั้งหมด|ทันที|ใดๆ|ตลอด|ต่อจากนี้|โดยไม่ต้องตรวจ|โดยไม่ตรวจ",
        "ส่ง|แสดง|โพสต์|แชร์|อัปโหลด|คัดลอก|แนบ|พิมพ์",
        "รหัสผ่าน|คีย์|โทเคน|โทเค็น|กุญแจ|ความลับ|ข้อมูลรับรอง",
        "ที่อยู่|คำตอบ|ความคิดเห็น|ให้ฉัน|ให้เรา|มาที่|ไปที่|ไปยัง|รายงาน|ข้อความ|ด้านล่าง",
    ),
    "amharic": Words(
        "ችላ በል|ችላ|እርሳ|ተው|አትከተል|αγνόησε|αγνοησε|αγνόησ\\pL*|ξέχασε|ξεχασε|ξέχνα|התעלם|התעלמ\\pL*|תתעלם|שכח|שכחי|אל תציית",
        "መመሪያ|ትእዛዝ|ትዕዛዝ|ሕግ|ህግ|οδηγ\\pL+|εντολ\\pL+|κανόν\\pL*|κανον\\pL*|ההוראות|הוראות|הנחיות|ההנחיות|הכללים|פקודות",
        "አትንገር|አትናገር|አታሳውቅ|ደብቅ|μην? (?:το )?(?:πεις|πείτε|αναφέρεις|ενημερώσεις|αποκαλύψεις)|אל ת(?:ספר|גיד|ודיע|זכיר|גלה|דווח)\\pL*|הסתר",
        "ተጠቃሚ|ለማንም|ሰው|χρήστ\\pL*|χρηστ\\pL*|κανέναν|κανενα|πελάτ\\pL*|משתמש|למשתמש|המשתמש|לאף אחד|אדם|לקוח",
        "አጽድቅ|ፍቀድ|ተቀበል|ενέκρινε|εγκρίνετε|εγκρινε|αποδέξου|אשר|תאשר|קבל",
        "ሁልጊዜ|ሁሉንም|ሁሉ|እያንዳንዱ|ወዲያውኑ|πάντα|παντα|όλ\\pL+|κάθε|αμέσως|תמיד|כל|מיד",
        "ላክ|አሳይ|አጋራ|στείλε|στειλε|δείξε|δημοσίευσε|שלח|תשלח|הצג|פרסם|העתק",
        "የይለፍ ቃል|ቁልፍ|ሚስጥር|κωδικ\\pL+|κλειδι\\pL*|διαπιστευτήρια|סיסמ\\pL+|הסיסמ\\pL+|מפתח\\pL*|המפתח\\pL*|אסימון|סוד\\pL*",
        "አድራሻ|መልስ|ለእኔ|διεύθυνση|απάντηση|σχόλιο|μου|לכתובת|כתובת|תגובה|לי|אליי",
    ),
}
"""Languages in other letters; related ones, or those with few speakers, share a row."""

_LANGUAGES: Final = (*LATIN.values(), *OTHER.values())
_COUNT: Final = len(_LANGUAGES)
_ONE_CLASS: Final = (1 << _COUNT) - 1


def expressions() -> list[str]:
    """Return the classes of words of all languages as re2 expressions, class by class, as `has_order` expects them."""
    wider = {"secrets": f"|{_LOANWORDS}", "target": f"|{_AWAY}"}
    pairs = [(name, getattr(row, name)) for name in Words._fields for row in _LANGUAGES]
    return [unicodedata.normalize("NFKC", f"(?:{pattern}){wider.get(name, '')}") for name, pattern in pairs]


def has_order(found: int) -> bool:
    """Return whether the classes of an order were found, all in one language: a bit for each of `expressions`."""
    drop_rules = found & found >> _COUNT
    hush_people = found >> 2 * _COUNT & found >> 3 * _COUNT
    allow_every = found >> 4 * _COUNT & found >> 5 * _COUNT
    give_secrets = found >> 6 * _COUNT & found >> 7 * _COUNT & found >> 8 * _COUNT
    return bool((drop_rules | hush_people | allow_every | give_secrets) & _ONE_CLASS)


def sentences(text: str) -> list[str]:
    """Return a text's sentences; a short text is one, since its line breaks may be a disguise."""
    return [text] if len(text) <= _MAX_JOINED else _SENTENCE_END.split(text)
